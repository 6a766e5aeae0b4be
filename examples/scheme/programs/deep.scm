; Deep recursion: as deep as the heap is large, and an error beyond.
(define (deep n) (if (= n 0) 0 (+ 1 (deep (- n 1)))))
(print (deep 2000))
(define (deeper n) (+ 1 (deeper (+ n 1))))
(print (try (lambda () (deeper 0)) (lambda (message) message)))
(print (deep 2000))
(define (hoard list) (hoard (cons (make-vector 100 list) list)))
(print (try (lambda () (hoard '())) (lambda (message) message)))
(print (length (range 0 1000)))
