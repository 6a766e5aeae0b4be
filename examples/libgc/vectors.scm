;; A Guile program: lists of 50,000 vectors, ten times, each garbage when the next one is built.
(define (built n)
  (let loop ((i 0) (l '()))
    (if (= i n) l (loop (+ i 1) (cons (make-vector 4 i) l)))))

(let loop ((i 0))
  (if (< i 10)
      (begin (built 50000) (loop (+ i 1)))))
(display (length (built 1000)))
(newline)
