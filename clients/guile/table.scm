;;; table.scm RECORDS ROUNDS: a large table that changes slowly.
;;;
;;; The table is filled with records, each of which has a string and a pair of its own.  Each round makes 200,000 short
;;; lists, of which a hundred at a time live together, and replaces one record in a thousand.  At the end the records
;;; that were replaced are counted, and all are added up.

(define (record index round)
  (vector index round (number->string (+ index round)) (cons index round)))

(define (make-table records)
  (let ((table (make-vector records #f)))
    (let loop ((index 0))
      (when (< index records)
        (vector-set! table index (record index 0))
        (loop (+ index 1))))
    table))

;; What dies at once, but for the last hundred.
(define (allocate round)
  (let loop ((count 0) (live '()))
    (cond ((= count 200000) (length live))
          ((= 0 (modulo count 100)) (loop (+ count 1) '()))
          (else (loop (+ count 1) (cons (list count round) live))))))

(define (replace! table round)
  (let* ((records (vector-length table))
         (count (quotient records 1000)))
    (let loop ((number 0))
      (when (< number count)
        (let ((index (modulo (+ (* round 7919) (* number 1009)) records)))
          (vector-set! table index (record index round)))
        (loop (+ number 1))))))

(define (sum table)
  (let loop ((index 0) (replaced 0) (total 0))
    (if (= index (vector-length table))
        (list replaced total)
        (let ((it (vector-ref table index)))
          (unless (and (= (car (vector-ref it 3)) index)
                       (= (cdr (vector-ref it 3)) (vector-ref it 1)))
            (error "a record was lost" index it))
          (loop (+ index 1)
                (if (= 0 (vector-ref it 1)) replaced (+ replaced 1))
                (modulo (+ (* total 31) (string->number (vector-ref it 2)))
                        1000000007))))))

(define (main records rounds)
  (let ((table (make-table records)))
    (let loop ((round 1) (live 0))
      (if (> round rounds)
          (format #t "~a records, ~a rounds: ~a live, ~a\n" records rounds live
                  (sum table))
          (let ((lives (allocate round)))
            (replace! table round)
            (loop (+ round 1) (+ live lives)))))))

(apply main (map string->number (cdr (command-line))))
