;;; corners.scm ROUNDS SIZE: what a runtime asks of its collector beside plain
;;; objects: weak tables, guardians, continuations that copy the stack, big
;;; integers, big vectors, bytevectors and deep recursion.
;;;
;;; When something unreachable goes is the collector's choice; the program
;;; prints only what must hold whatever it chooses.

(use-modules (rnrs bytevectors) (srfi srfi-1))

(define (check condition what)
  (unless condition (error "broken" what)))

;; Keys that are held must keep their entries; others may lose them.
(define (weak-tables size)
  (let ((table (make-weak-key-hash-table))
        (held (map (lambda (i) (list i)) (iota size))))
    (for-each (lambda (key) (hashq-set! table key (* 2 (car key)))) held)
    (let loop ((i 0))
      (when (< i size)
        (hashq-set! table (list 'dropped i) i)
        (loop (+ i 1))))
    (for-each (lambda (key)
                (check (= (hashq-ref table key) (* 2 (car key))) "weak entry"))
              held)
    (length held)))

;; What a guardian returns is whole, and returned once.
(define (guardians size)
  (let ((guardian (make-guardian)) (seen (make-hash-table)))
    (define (drain)
      (let ((object (guardian)))
        (when object
          (check (equal? (cdr object) (iota 5 (car object))) "guarded object")
          (check (not (hashv-ref seen (car object))) "returned once")
          (hashv-set! seen (car object) #t)
          (drain))))
    (let loop ((i 0))
      (when (< i size)
        (guardian (cons i (iota 5 i)))
        (when (= 0 (modulo i 1000)) (gc) (drain))
        (loop (+ i 1))))
    (drain)
    (check (<= (hash-count (const #t) seen) size) "no more than were made")
    size))

;; A generator that leaves a loop by one continuation and returns by another.
(define (tree-generator tree)
  (define return #f)
  (define (resume)
    (let walk ((tree tree))
      (cond ((pair? tree) (walk (car tree)) (walk (cdr tree)))
            ((null? tree) #t)
            (else (call/cc (lambda (here)
                             (set! resume (lambda () (here #t)))
                             (return tree))))))
    (return 'done))
  (lambda ()
    (call/cc (lambda (out) (set! return out) (resume)))))

(define (make-tree depth)
  (if (= depth 0)
      (list 1 2)
      (cons (make-tree (- depth 1)) (make-tree (- depth 1)))))

(define (continuations depth)
  (let ((next (tree-generator (make-tree depth))))
    (let loop ((sum 0))
      (let ((item (next)))
        (if (eq? item 'done) sum (loop (+ sum item)))))))

;; Prompts keep parts of the stack, several of them alive at once.
(define (prompts count)
  (let ((tag (make-prompt-tag "corner")))
    (define (suspend i)
      (call-with-prompt tag
        (lambda () (+ i (let deep ((n 50))
                          (if (= n 0)
                              (abort-to-prompt tag)
                              (+ 1 (deep (- n 1)))))))
        (lambda (k) k)))
    (fold (lambda (k sum) (+ sum (k 1000))) 0 (map suspend (iota count)))))

(define (big-integers count)
  (let loop ((i 1) (product 1))
    (if (> i count)
        (modulo (string-length (number->string product)) 1000003)
        (loop (+ i 1) (* product i)))))

;; Large objects: kept in a ring, each filled and checked before it goes.
(define (large-objects count words)
  (let ((ring (make-vector 8 #f)))
    (let loop ((i 0) (sum 0))
      (if (= i count)
          sum
          (let ((old (vector-ref ring (modulo i 8)))
                (bytes (make-bytevector (* 8 words) (modulo i 251))))
            (when old
              (check (= (vector-ref (car old) (- words 1)) (- i 8)) "vector")
              (check (= (bytevector-u8-ref (cdr old) (- (* 8 words) 1))
                        (modulo (- i 8) 251))
                     "bytevector"))
            (vector-set! ring (modulo i 8) (cons (make-vector words i) bytes))
            (loop (+ i 1) (+ sum words)))))))

(define (deep-recursion depth)
  (let sum ((n depth))
    (if (= n 0) 0 (+ 1 (sum (- n 1))))))

(define (main rounds size)
  (let loop ((round 0))
    (when (< round rounds)
      (format #t "round ~a: ~a ~a ~a ~a ~a ~a ~a~%" round
              (weak-tables size)
              (guardians size)
              (continuations (min 12 (integer-length size)))
              (prompts (quotient size 10))
              (big-integers (quotient size 5))
              (large-objects (quotient size 20) 3000)
              (deep-recursion (* 10 size)))
      (loop (+ round 1)))))

(apply main (map string->number (cdr (command-line))))
