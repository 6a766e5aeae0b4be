;;; threads.scm THREADS JOBS SIZE: several threads on one heap.
;;;
;;; Three ways of sharing work: threads that take jobs from a queue with a
;;; mutex and a condition variable, futures, and short-lived threads that come
;;; and go.  Every job builds a balanced tree, sorts and flattens it; results
;;; are put in order before anything is printed.

(use-modules (ice-9 threads) (ice-9 futures) (srfi srfi-1))

;;; Trees: (left key right), weight-blind, from a fixed sequence of keys.

(define (next-key key) (modulo (+ (* key 1103515245) 12345) 2147483648))

(define (insert tree key)
  (cond ((not tree) (vector #f key #f))
        ((< key (vector-ref tree 1))
         (vector (insert (vector-ref tree 0) key)
                 (vector-ref tree 1)
                 (vector-ref tree 2)))
        (else
         (vector (vector-ref tree 0)
                 (vector-ref tree 1)
                 (insert (vector-ref tree 2) key)))))

(define (flatten tree rest)
  (if (not tree)
      rest
      (flatten (vector-ref tree 0)
               (cons (vector-ref tree 1)
                     (flatten (vector-ref tree 2) rest)))))

(define (job number size)
  (let loop ((i 0) (key (+ 17 (* 1000 number))) (tree #f))
    (if (< i size)
        (loop (+ i 1) (next-key key) (insert tree key))
        (let ((keys (flatten tree '())))
          (unless (equal? keys (sort (reverse keys) <))
            (error "a tree is out of order" number))
          (fold (lambda (k sum) (modulo (+ k (* 31 sum)) 1000000007))
                (length keys) keys)))))

;;; A queue of jobs.

(define (run-queue threads jobs size)
  (let ((lock (make-mutex))
        (ready (make-condition-variable))
        (waiting '())
        (closed #f)
        (results (make-vector jobs #f)))
    (define (take)
      (with-mutex lock
        (let wait ()
          (cond ((pair? waiting)
                 (let ((number (car waiting)))
                   (set! waiting (cdr waiting))
                   number))
                (closed #f)
                (else (wait-condition-variable ready lock) (wait))))))
    (define (work)
      (let ((number (take)))
        (when number
          (vector-set! results number (job number size))
          (work))))
    (let ((workers (map (lambda (i) (call-with-new-thread work))
                        (iota threads))))
      (for-each (lambda (number)
                  (with-mutex lock
                    (set! waiting (cons number waiting))
                    (signal-condition-variable ready)))
                (iota jobs))
      (with-mutex lock
        (set! closed #t)
        (broadcast-condition-variable ready))
      (for-each join-thread workers)
      (vector->list results))))

(define (run-futures jobs size)
  (map touch (map (lambda (number) (make-future (lambda () (job number size))))
                  (iota jobs))))

;; Threads that live for one job each, a few at a time.
(define (run-visitors threads jobs size)
  (let loop ((number 0) (sums '()))
    (if (>= number jobs)
        (reverse sums)
        (let ((visitors
               (map (lambda (i)
                      (call-with-new-thread (lambda () (job i size))))
                    (iota (min threads (- jobs number)) number))))
          (loop (+ number threads)
                (append (reverse (map join-thread visitors)) sums))))))

(define (report name sums)
  (format #t "~a: ~a jobs, ~a~%" name (length sums)
          (fold (lambda (x sum) (modulo (+ x (* 7 sum)) 1000000007)) 0 sums)))

(define (main threads jobs size)
  (report "queue" (run-queue threads jobs size))
  (report "futures" (run-futures jobs size))
  (report "visitors" (run-visitors threads jobs (max 1 (quotient size 4)))))

(apply main (map string->number (cdr (command-line))))
