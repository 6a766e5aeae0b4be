;;; rewrite.scm CHAIN ROUNDS: proves theorems by rewriting.
;;;
;;; A term is a symbol or a list of an operator and its arguments.  Lemmas are
;;; equations used from left to right, found by the operator of their left
;;; side.  A statement is rewritten until no lemma applies, which leaves nested
;;; conditionals with plain tests, and those are decided by cases.  Most terms
;;; die at once; a history of the last rounds stays alive.

(define lemmas (make-hash-table))

(define (add-lemma! left right)
  (hashq-set! lemmas (car left)
              (cons (cons left right) (hashq-ref lemmas (car left) '()))))

(define-syntax rules
  (syntax-rules ()
    ((_ (left right) ...) (begin (add-lemma! 'left 'right) ...))))

;; Lemmas added later are tried first.
(rules
 ;; logic, in terms of the conditional
 ((not p)            (if p (false) (true)))
 ((and p q)          (if p (if q (true) (false)) (false)))
 ((or p q)           (if p (true) (if q (true) (false))))
 ((implies p q)      (if p (if q (true) (false)) (true)))
 ((iff p q)          (and (implies p q) (implies q p)))
 ((xor p q)          (or (and p (not q)) (and q (not p))))
 ((if (if p a b) c d) (if p (if a c d) (if b c d)))
 ;; numbers
 ((plus (plus a b) c)     (plus a (plus b c)))
 ((plus (zero) a)         a)
 ((plus (succ a) b)       (succ (plus a b)))
 ((times (plus a b) c)    (plus (times a c) (times b c)))
 ((times a (plus b c))    (plus (times a b) (times a c)))
 ((times (times a b) c)   (times a (times b c)))
 ((times (zero) a)        (zero))
 ((times (succ a) b)      (plus b (times a b)))
 ((minus (plus a b) a)    b)
 ((minus a a)             (zero))
 ((power a (zero))        (succ (zero)))
 ((power a (plus b c))    (times (power a b) (power a c)))
 ((power a (succ b))      (times a (power a b)))
 ((less a a)              (false))
 ((less (succ a) (succ b)) (less a b))
 ((less (plus a b) (plus a c)) (less b c))
 ((less-or-equal a b)     (not (less b a)))
 ((greater a b)           (less b a))
 ((same (plus a b) (plus a c)) (same b c))
 ((same a a)              (true))
 ((even (plus a a))       (true))
 ((even (succ (succ a)))  (even a))
 ((odd a)                 (not (even a)))
 ((square a)              (times a a))
 ((double a)              (plus a a))
 ;; lists
 ((append (append a b) c)   (append a (append b c)))
 ((append (empty) a)        a)
 ((append (pair a b) c)     (pair a (append b c)))
 ((reverse (append a b))    (append (reverse b) (reverse a)))
 ((reverse (pair a b))      (append (reverse b) (pair a (empty))))
 ((reverse (reverse a))     a)
 ((reverse (empty))         (empty))
 ((length (append a b))     (plus (length a) (length b)))
 ((length (pair a b))       (succ (length b)))
 ((length (reverse a))      (length a))
 ((length (empty))          (zero))
 ((member a (append b c))   (or (member a b) (member a c)))
 ((member a (pair b c))     (or (same a b) (member a c)))
 ((member a (reverse b))    (member a b))
 ((sum (append a b))        (plus (sum a) (sum b)))
 ((sum (pair a b))          (plus a (sum b)))
 ((sum (reverse a))         (sum a))
 ((map-double (append a b)) (append (map-double a) (map-double b)))
 ((map-double (pair a b))   (pair (plus a a) (map-double b)))
 ((sum (map-double a))      (plus (sum a) (sum a)))
 ((length (map-double a))   (length a))
 ((count a (append b c))    (plus (count a b) (count a c)))
 ((count a (reverse b))     (count a b)))

;; One-way matching: the bindings that make PATTERN equal to TERM, or #f.
(define (match pattern term bindings)
  (cond ((symbol? pattern)
         (let ((bound (assq pattern bindings)))
           (cond ((not bound) (cons (cons pattern term) bindings))
                 ((equal? (cdr bound) term) bindings)
                 (else #f))))
        ((symbol? term) #f)
        ((not (eq? (car pattern) (car term))) #f)
        (else (match-all (cdr pattern) (cdr term) bindings))))

(define (match-all patterns terms bindings)
  (cond ((null? patterns) (and (null? terms) bindings))
        ((null? terms) #f)
        (else (let ((more (match (car patterns) (car terms) bindings)))
                (and more (match-all (cdr patterns) (cdr terms) more))))))

(define (instantiate term bindings)
  (if (symbol? term)
      (let ((bound (assq term bindings)))
        (if bound (cdr bound) term))
      (cons (car term)
            (map (lambda (part) (instantiate part bindings)) (cdr term)))))

(define steps 0)

(define (rewrite term)
  (if (symbol? term)
      term
      (rewrite-head (cons (car term) (map rewrite (cdr term))))))

(define (rewrite-head term)
  (let try ((candidates (hashq-ref lemmas (car term) '())))
    (if (null? candidates)
        term
        (let ((bindings (match (caar candidates) term '())))
          (if bindings
              (begin
                (set! steps (+ steps 1))
                (rewrite (instantiate (cdar candidates) bindings)))
              (try (cdr candidates)))))))

;; Decides nested conditionals by cases: YES and NO are the tests passed.
(define (tautology? term yes no)
  (cond ((or (equal? term '(true)) (member term yes)) #t)
        ((or (equal? term '(false)) (member term no)) #f)
        ((and (pair? term) (eq? (car term) 'if))
         (let ((test (cadr term)))
           (cond ((or (equal? test '(true)) (member test yes))
                  (tautology? (caddr term) yes no))
                 ((or (equal? test '(false)) (member test no))
                  (tautology? (cadddr term) yes no))
                 (else (and (tautology? (caddr term) (cons test yes) no)
                            (tautology? (cadddr term) yes (cons test no)))))))
        (else #f)))

;; a0 implies a1, a1 implies a2, ... : therefore a0 implies the last.
(define (chain-theorem atoms)
  (let loop ((rest atoms) (premises '()))
    (if (null? (cdr rest))
        `(implies ,(fold-and premises) (implies ,(car atoms) ,(car rest)))
        (loop (cdr rest)
              (cons `(implies ,(car rest) ,(cadr rest)) premises)))))

(define (fold-and terms)
  (if (null? (cdr terms))
      (car terms)
      `(and ,(car terms) ,(fold-and (cdr terms)))))

;; Statements about numbers and lists for the places of the atoms.
(define (atom i)
  (list-ref
   `((same (length (reverse (append x (append y x))))
           (plus (length y) (double (length x))))
     (member k (append (reverse x) y))
     (less (plus u (sum (append x y))) (plus u (sum (pair w (append x y)))))
     (same (times (plus u v) (plus v w)) (square (plus u w)))
     (less (sum (map-double (append x y))) (power u (plus v (succ (zero)))))
     (same (count k (reverse (append x y))) (count k (append y x)))
     (less (length (append x (map-double y))) (sum (append z x)))
     (even (plus (square (plus u v)) (times v w)))
     (greater (square (plus u (succ v))) (length (pair k x))))
   (modulo i 9)))

(define (prove chain round)
  (let* ((atoms (map (lambda (i) (atom (+ i round))) (iota (+ chain 1))))
         (before steps)
         (normal (rewrite (chain-theorem atoms)))
         (proved (tautology? normal '() '())))
    (values normal proved (- steps before))))

(define (main chain rounds)
  (let loop ((round 0) (history '()))
    (when (< round rounds)
      (call-with-values (lambda () (prove chain round))
        (lambda (normal proved count)
          (when (< round 9)
            (format #t "round ~a: proved ~a in ~a steps, hash ~a~%"
                    round proved count (hash normal 16777213)))
          (let ((longer (cons normal history)))
            (loop (+ round 1)
                  (if (> (length longer) 4)
                      (list-head longer 4)
                      longer))))))
    (when (= round rounds)
      (format #t "~a rounds, ~a steps, ~a terms kept~%"
              rounds steps (length history)))))

(apply main (map string->number (cdr (command-line))))
