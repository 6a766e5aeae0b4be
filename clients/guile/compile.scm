;;; compile.scm MODULE OUTPUT: Guile's own compiler on one of Guile's modules.
;;;
;;; MODULE is a path below Guile's own source directory without ".scm".  The
;;; object file goes to OUTPUT; its length and a digest are printed, since the
;;; compiler's output does not depend on the collector.

(use-modules (system base compile) (ice-9 binary-ports) (rnrs bytevectors))

(define (digest bytes)
  (let ((length (bytevector-length bytes)))
    (let loop ((i 0) (sum 7))
      (if (= i length)
          sum
          (loop (+ i 1)
                (modulo (+ (* sum 31) (bytevector-u8-ref bytes i))
                        1000000007))))))

(define (main module output)
  (compile-file (%search-load-path (string-append module ".scm"))
                #:output-file output)
  (let ((bytes (call-with-input-file output get-bytevector-all #:binary #t)))
    (format #t "~a: ~a bytes, ~a~%" module (bytevector-length bytes)
            (digest bytes))))

(apply main (cdr (command-line)))
