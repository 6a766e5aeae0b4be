; How much the programs do: as much as they are for.
(define LOOPS 1000000)
(define PUTS 5000)
