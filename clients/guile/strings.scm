;;; strings.scm LINES ROUNDS: text, symbols, hash tables, ports and sorting.
;;;
;;; Makes up a text, takes it apart again, counts and indexes its words, and
;;; prints digests.  Strings and string buffers hold no pointers; the tables
;;; grow and are rebuilt; symbols stay in the reader's weak table.

(use-modules (srfi srfi-1) (srfi srfi-13) (ice-9 regex) (ice-9 rdelim))

(define seed 42)

(define (random-below limit)
  (set! seed (modulo (+ (* seed 1103515245) 12345) 2147483648))
  (modulo (quotient seed 65536) limit))

(define syllables
  #("ga" "ro" "len" "ti" "mu" "sar" "ke" "vo" "din" "pa" "ste" "lu" "ör" "né"))

(define (make-word)
  (let loop ((count (+ 1 (random-below 4))) (parts '()))
    (if (= count 0)
        (string-concatenate parts)
        (loop (- count 1)
              (cons (vector-ref syllables
                                (random-below (vector-length syllables)))
                    parts)))))

(define (make-text lines)
  (call-with-output-string
    (lambda (port)
      (let loop ((line 0))
        (when (< line lines)
          (let words ((count (+ 4 (random-below 9))))
            (when (> count 0)
              (display (make-word) port)
              (display (if (= 0 (random-below 7)) ", " " ") port)
              (words (- count 1))))
          (format port "~a.~%" (* line line))
          (loop (+ line 1)))))))

(define word-edge (char-set-complement char-set:letter+digit))

(define (split-words line)
  (filter (lambda (word) (not (string-null? word)))
          (string-split line (lambda (c) (char-set-contains? word-edge c)))))

;; Every line where a word occurs, newest first.
(define (index-text text)
  (let ((index (make-hash-table)))
    (call-with-input-string text
      (lambda (port)
        (let loop ((line (read-line port)) (number 0))
          (unless (eof-object? line)
            (for-each
             (lambda (word)
               (let ((key (string-downcase word)))
                 (hash-set! index key
                            (cons number (hash-ref index key '())))))
             (split-words line))
            (loop (read-line port) (+ number 1))))))
    index))

(define (by-count index)
  (sort (hash-map->list (lambda (word lines) (cons (length lines) word)) index)
        (lambda (a b)
          (or (> (car a) (car b))
              (and (= (car a) (car b)) (string<? (cdr a) (cdr b)))))))

(define (digest string)
  (string-fold (lambda (c sum) (modulo (+ (* sum 31) (char->integer c)) 1000003))
               7 string))

;; Words as symbols with property lists, and back.
(define (symbol-round-trip words)
  (let ((table (make-hash-table)))
    (for-each (lambda (word)
                (let ((name (string->symbol (string-append "w-" word))))
                  (hashq-set! table name (+ 1 (hashq-ref table name 0)))))
              words)
    (fold (lambda (word sum)
            (modulo (+ (* 17 sum)
                       (hashq-ref table
                                  (string->symbol (string-append "w-" word))))
                    1000003))
          0 words)))

(define number-pattern (make-regexp "[0-9]+\\."))

(define (sum-numbers text)
  (fold (lambda (line sum)
          (let ((m (regexp-exec number-pattern line)))
            (if m
                (+ sum (string->number
                        (string-drop-right (match:substring m) 1)))
                sum)))
        0 (string-split text #\newline)))

(define (round-of lines)
  (let* ((text (make-text lines))
         (index (index-text text))
         (ranked (by-count index))
         (words (map cdr ranked))
         (joined (string-join (map string-capitalize words) "/")))
    (format #t "~a characters, ~a words, text ~a, joined ~a~%"
            (string-length text) (length words) (digest text) (digest joined))
    (format #t "  first ~s, symbols ~a, numbers ~a, reversed ~a~%"
            (list-head ranked (min 4 (length ranked)))
            (symbol-round-trip words) (sum-numbers text)
            (digest (string-reverse (string-upcase joined))))))

(define (main lines rounds)
  (setlocale LC_ALL "C.UTF-8")
  (let loop ((round 0))
    (when (< round rounds)
      (round-of lines)
      (loop (+ round 1)))))

(apply main (map string->number (cdr (command-line))))
