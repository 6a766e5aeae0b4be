; Calls and arithmetic.
(define (tak x y z)
  (if (not (< y x))
      z
      (tak (tak (- x 1) y z) (tak (- y 1) z x) (tak (- z 1) x y))))
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(print (tak 12 8 4))
(print (fib 15))
; Numbers of 64 bits, whatever the heap's slots hold.
(define (factorial n) (if (= n 0) 1 (* n (factorial (- n 1)))))
(print (map factorial '(1 12 13 20)))
(print (quotient (factorial 20) (factorial 18)) " " (remainder -7 2) " " (- 7))
