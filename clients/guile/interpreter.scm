;;; interpreter.scm SCALE: runs programs in an interpreter written in Scheme.
;;;
;;; The interpreter first turns a program into closures, then runs those with
;;; environments on the heap: a list of frames, each a vector.  Every call
;;; allocates a frame and an argument list, nearly all of which die young;
;;; the programs keep lists, trees and streams of their own.

(define (compile-expression form scope)
  (cond ((symbol? form) (compile-variable form scope))
        ((not (pair? form)) (lambda (env) form))
        (else
         (case (car form)
           ((quote) (let ((value (cadr form))) (lambda (env) value)))
           ((if) (compile-if (cdr form) scope))
           ((lambda) (compile-lambda (cadr form) (cddr form) scope))
           ((let) (compile-call
                   `((lambda ,(map car (cadr form)) ,@(cddr form))
                     ,@(map cadr (cadr form)))
                   scope))
           ((begin) (compile-body (cdr form) scope))
           ((set!) (compile-set (cadr form) (caddr form) scope))
           ((cond) (compile-expression (expand-cond (cdr form)) scope))
           ((and) (compile-expression (expand-and (cdr form)) scope))
           ((delay) (compile-expression
                     `(lambda () ,(cadr form)) scope))
           (else (compile-call form scope))))))

(define (expand-cond clauses)
  (cond ((null? clauses) #f)
        ((eq? (caar clauses) 'else) `(begin ,@(cdar clauses)))
        (else `(if ,(caar clauses)
                   (begin ,@(cdar clauses))
                   (cond ,@(cdr clauses))))))

(define (expand-and forms)
  (cond ((null? forms) #t)
        ((null? (cdr forms)) (car forms))
        (else `(if ,(car forms) (and ,@(cdr forms)) #f))))

;; Where a variable lives: frame depth and index, or #f for a global.
(define (locate name scope)
  (let loop ((frames scope) (depth 0))
    (if (null? frames)
        #f
        (let find ((names (car frames)) (index 0))
          (cond ((null? names) (loop (cdr frames) (+ depth 1)))
                ((eq? (car names) name) (cons depth index))
                (else (find (cdr names) (+ index 1))))))))

(define globals (make-hash-table))

(define (global-cell name)
  (or (hashq-ref globals name)
      (let ((cell (cons name 'undefined)))
        (hashq-set! globals name cell)
        cell)))

(define (frame-at env depth)
  (if (= depth 0) (car env) (frame-at (cdr env) (- depth 1))))

(define (compile-variable name scope)
  (let ((place (locate name scope)))
    (if place
        (let ((depth (car place)) (index (cdr place)))
          (if (= depth 0)
              (lambda (env) (vector-ref (car env) index))
              (lambda (env) (vector-ref (frame-at env depth) index))))
        (let ((cell (global-cell name)))
          (lambda (env) (cdr cell))))))

(define (compile-set name form scope)
  (let ((place (locate name scope)) (value (compile-expression form scope)))
    (if place
        (lambda (env)
          (vector-set! (frame-at env (car place)) (cdr place) (value env)))
        (let ((cell (global-cell name)))
          (lambda (env) (set-cdr! cell (value env)))))))

(define (compile-if parts scope)
  (let ((test (compile-expression (car parts) scope))
        (yes (compile-expression (cadr parts) scope))
        (no (if (null? (cddr parts))
                (lambda (env) #f)
                (compile-expression (caddr parts) scope))))
    (lambda (env) (if (test env) (yes env) (no env)))))

(define (compile-body forms scope)
  (let ((first (compile-expression (car forms) scope)))
    (if (null? (cdr forms))
        first
        (let ((rest (compile-body (cdr forms) scope)))
          (lambda (env) (first env) (rest env))))))

(define (compile-lambda parameters forms scope)
  (let ((body (compile-body forms (cons parameters scope))))
    (lambda (env)
      (lambda arguments
        (body (cons (list->vector arguments) env))))))

(define (compile-call form scope)
  (let ((operator (compile-expression (car form) scope))
        (operands (map (lambda (part) (compile-expression part scope))
                       (cdr form))))
    (lambda (env)
      (apply (operator env)
             (map (lambda (operand) (operand env)) operands)))))

(define (run-form form)
  (if (and (pair? form) (eq? (car form) 'define))
      (let ((cell (global-cell (caadr form))))
        (set-cdr! cell
                  ((compile-lambda (cdadr form) (cddr form) '()) '())))
      ((compile-expression form '()) '())))

(for-each
 (lambda (entry) (set-cdr! (global-cell (car entry)) (cdr entry)))
 `((+ . ,+) (- . ,-) (* . ,*) (= . ,=) (< . ,<) (> . ,>) (eq? . ,eq?)
   (quotient . ,quotient) (remainder . ,remainder) (cons . ,cons) (car . ,car)
   (cdr . ,cdr) (null? . ,null?) (pair? . ,pair?) (list . ,list)
   (symbol? . ,symbol?) (number? . ,number?) (not . ,not) (equal? . ,equal?)
   (append . ,append) (length . ,length)))

;;; The programs.

(define library
  '((define (fold f start items)
      (if (null? items) start (fold f (f (car items) start) (cdr items))))
    (define (each f items)
      (if (null? items) '() (cons (f (car items)) (each f (cdr items)))))
    (define (keep f items)
      (cond ((null? items) '())
            ((f (car items)) (cons (car items) (keep f (cdr items))))
            (else (keep f (cdr items)))))
    (define (upto a b) (if (> a b) '() (cons a (upto (+ a 1) b))))))

(define queens
  '((define (safe? column distance placed)
      (cond ((null? placed) #t)
            ((= (car placed) column) #f)
            ((= (car placed) (+ column distance)) #f)
            ((= (car placed) (- column distance)) #f)
            (else (safe? column (+ distance 1) (cdr placed)))))
    (define (place row size placed)
      (if (= row 0)
          (list placed)
          (fold append '()
                (each (lambda (column)
                        (if (safe? column 1 placed)
                            (place (- row 1) size (cons column placed))
                            '()))
                      (upto 1 size)))))
    (define (main size) (length (place size size '())))))

(define sorting
  '((define (split items a b)
      (if (null? items)
          (cons a b)
          (split (cdr items) (cons (car items) b) a)))
    (define (merge a b)
      (cond ((null? a) b)
            ((null? b) a)
            ((< (car a) (car b)) (cons (car a) (merge (cdr a) b)))
            (else (cons (car b) (merge a (cdr b))))))
    (define (sort items)
      (if (null? items)
          '()
          (if (null? (cdr items))
              items
              (let ((halves (split items '() '())))
                (merge (sort (car halves)) (sort (cdr halves)))))))
    (define (numbers count seed)
      (if (= count 0)
          '()
          (cons (remainder seed 10007)
                (numbers (- count 1)
                         (remainder (+ (* seed 1103) 12345) 2147483))))))
  )

(define sorting-main
  '((define (main size)
      (fold (lambda (x sum) (remainder (+ x (* 3 sum)) 1000003))
            0 (sort (numbers (* 1000 size) 17))))))

(define derivatives
  '((define (derive form)
      (cond ((number? form) 0)
            ((symbol? form) 1)
            ((eq? (car form) '+)
             (cons '+ (each derive (cdr form))))
            (else
             (cons '+ (each (lambda (part)
                              (cons '* (cons (derive part)
                                             (keep (lambda (other)
                                                     (not (eq? other part)))
                                                   (cdr form)))))
                            (cdr form))))))
    (define (size form)
      (if (pair? form) (fold (lambda (x n) (+ n (size x))) 1 (cdr form)) 1))
    (define (repeat count form)
      (if (= count 0) form (repeat (- count 1) (derive form))))
    (define (main scale)
      (size (repeat (quotient scale 2) '(* (+ x 1) (* x x) (* x (+ x 2))))))))

(define primes
  '((define (from n) (cons n (delay (from (+ n 1)))))
    (define (rest stream) ((cdr stream)))
    (define (sieve stream)
      (let ((prime (car stream)))
        (cons prime
              (delay (sieve (without prime (rest stream)))))))
    (define (without prime stream)
      (if (= 0 (remainder (car stream) prime))
          (without prime (rest stream))
          (cons (car stream) (delay (without prime (rest stream))))))
    (define (take count stream)
      (if (= count 0)
          '()
          (cons (car stream) (take (- count 1) (rest stream)))))
    (define (main scale)
      (fold + 0 (take (* 25 scale) (sieve (from 2)))))))

(define (run name scale . programs)
  (for-each (lambda (program) (for-each run-form program)) programs)
  (format #t "~a: ~a~%" name ((cdr (global-cell 'main)) scale)))

(define (main scale)
  (run "queens" scale library queens)
  (run "sorting" scale library sorting sorting-main)
  (run "derivatives" scale library derivatives)
  (run "primes" scale library primes))

(apply main (map string->number (cdr (command-line))))
