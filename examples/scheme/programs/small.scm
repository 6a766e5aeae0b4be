; How much the programs do: little, for runs with many collections.
(define LOOPS 3000)
(define PUTS 200)
