;;; earley.scm WORDS ROUNDS: parses ambiguous sentences with a chart.
;;;
;;; The chart of Earley's algorithm holds one set of items per position.  An
;;; item remembers every way in which it was completed, so that the whole
;;; forest of parses stays reachable; the number of parses, a big integer, is
;;; then counted over the forest.  The charts are large and live until their
;;; sentence is done.

(use-modules (srfi srfi-9))

;; rule: left side and right side as a vector of symbols.
(define-record-type rule
  (make-rule left right)
  rule?
  (left rule-left)
  (right rule-right))

;; item: how much of a rule was seen since position START.  WAYS lists pairs
;; of the item before the last step and the item (or word) of that step.
(define-record-type item
  (make-item rule dot start ways parses)
  item?
  (rule item-rule)
  (dot item-dot)
  (start item-start)
  (ways item-ways set-item-ways!)
  (parses item-parses set-item-parses!))

(define (next-symbol item)
  (let ((right (rule-right (item-rule item))))
    (and (< (item-dot item) (vector-length right))
         (vector-ref right (item-dot item)))))

(define (grammar . lists)
  (let ((table (make-hash-table)))
    (for-each
     (lambda (entry)
       (hashq-set! table (car entry)
                   (map (lambda (right)
                          (make-rule (car entry) (list->vector right)))
                        (cdr entry))))
     lists)
    table))

(define sums
  (grammar '(start (sum))
           '(sum (sum plus sum) (sum times sum) (open sum close)
                 (minus sum) (number))))

(define english
  (grammar '(start (sentence))
           '(sentence (nouns verbs) (sentence and sentence))
           '(nouns (noun) (the nouns) (nouns phrase) (nouns and nouns))
           '(verbs (verb) (verb nouns) (verbs phrase))
           '(phrase (with nouns) (in nouns))))

;; One position of the chart: items in order of arrival, a table to find an
;; item again, and the items that wait for a symbol here.
(define-record-type state
  (make-state queue table waiting)
  state?
  (queue state-queue set-state-queue!)
  (table state-table)
  (waiting state-waiting))

(define (new-state) (make-state '() (make-hash-table) (make-hash-table)))

(define (item-key rule dot start) (list rule dot start))

;; Adds an item or a further way to reach it; true when it is new.
(define (add! state rule dot start way)
  (let* ((key (item-key rule dot start))
         (known (hash-ref (state-table state) key)))
    (if known
        (begin
          (when way (set-item-ways! known (cons way (item-ways known))))
          #f)
        (let ((item (make-item rule dot start (if way (list way) '()) #f)))
          (hash-set! (state-table state) key item)
          (set-state-queue! state (cons item (state-queue state)))
          item))))

(define (predict! grammar state position symbol work)
  (let loop ((rules (hashq-ref grammar symbol '())) (work work))
    (if (null? rules)
        work
        (let ((new (add! state (car rules) 0 position #f)))
          (loop (cdr rules) (if new (cons new work) work))))))

(define (advance! state waiting-item done work)
  (let ((new (add! state (item-rule waiting-item)
                   (+ 1 (item-dot waiting-item))
                   (item-start waiting-item)
                   (cons waiting-item done))))
    (if new (cons new work) work)))

(define (complete! chart state item work)
  (let ((origin (vector-ref chart (item-start item))))
    (let loop ((waiting (hashq-ref (state-waiting origin)
                                   (rule-left (item-rule item)) '()))
               (work work))
      (if (null? waiting)
          work
          (loop (cdr waiting) (advance! state (car waiting) item work))))))

;; No rule has an empty right side, so an item completed here began earlier
;; and the items that wait for it are all known.
(define (process! grammar chart position)
  (let ((state (vector-ref chart position)))
    (let loop ((work (reverse (state-queue state))))
      (unless (null? work)
        (let* ((item (car work)) (symbol (next-symbol item)))
          (cond
           ((not symbol) (loop (complete! chart state item (cdr work))))
           (else
            (let ((table (state-waiting state)))
              (hashq-set! table symbol
                          (cons item (hashq-ref table symbol '()))))
            (loop (predict! grammar state position symbol (cdr work))))))))))

(define (shift! chart position word)
  (let ((next (vector-ref chart (+ position 1))))
    (for-each (lambda (item) (advance! next item word '()))
              (hashq-ref (state-waiting (vector-ref chart position))
                         word '()))))

(define (parse grammar words)
  (let* ((count (length words)) (chart (make-vector (+ count 1) #f)))
    (let loop ((i 0))
      (when (<= i count)
        (vector-set! chart i (new-state))
        (loop (+ i 1))))
    (predict! grammar (vector-ref chart 0) 0 'start '())
    (let loop ((position 0) (words words))
      (process! grammar chart position)
      (unless (null? words)
        (shift! chart position (car words))
        (loop (+ position 1) (cdr words))))
    chart))

;; Number of parse trees below an item, counted once per item.
(define (parses item)
  (or (item-parses item)
      (let ((number
             (if (= 0 (item-dot item))
                 1
                 (let loop ((ways (item-ways item)) (total 0))
                   (if (null? ways)
                       total
                       (loop (cdr ways)
                             (+ total
                                (* (parses (caar ways))
                                   (if (item? (cdar ways))
                                       (parses (cdar ways))
                                       1)))))))))
        (set-item-parses! item number)
        number)))

(define (whole-parse grammar chart)
  (let ((last (vector-ref chart (- (vector-length chart) 1))))
    (hash-ref (state-table last)
              (item-key (car (hashq-ref grammar 'start)) 1 0))))

(define (chart-items chart)
  (let loop ((i 0) (total 0))
    (if (= i (vector-length chart))
        total
        (loop (+ i 1)
              (+ total (length (state-queue (vector-ref chart i))))))))

(define (report name grammar words)
  (let* ((chart (parse grammar words))
         (whole (whole-parse grammar chart)))
    (format #t "~a: ~a words, ~a items, ~a parses~%" name (length words)
            (chart-items chart) (if whole (parses whole) 0))))

;; number plus number times number ...
(define (sum-sentence length)
  (let loop ((i 1) (words '(number)))
    (if (>= i length)
        words
        (loop (+ i 2)
              (cons 'number
                    (cons (if (= 0 (modulo i 3)) 'plus 'times) words))))))

(define (english-sentence length)
  (let loop ((i 4) (words '()))
    (if (>= i length)
        (append '(the noun verb the noun) (reverse words))
        (loop (+ i 3)
              (cons 'noun
                    (cons 'the
                          (cons (if (= 0 (modulo i 4)) 'with 'in) words)))))))

(define (main words rounds)
  (let loop ((round 0))
    (when (< round rounds)
      (report "sum" sums (sum-sentence (+ words round)))
      (report "english" english (english-sentence (+ words round)))
      (loop (+ round 1)))))

(apply main (map string->number (cdr (command-line))))
