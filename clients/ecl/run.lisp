;;;; run.lisp: loads a program, compiled or as source, and calls its entry.
;;;;
;;;; ecl --norc --shell run.lisp FILE PACKAGE:FUNCTION SCALE   loads FILE
;;;; ecl --norc --shell run.lisp FILE compile OUTPUT          compiles FILE

(defun arguments ()
  (let ((all (ext:command-args)))
    (rest (member "run.lisp" all
                  :test (lambda (name argument)
                          (let ((start (- (length argument) (length name))))
                            (and (>= start 0)
                                 (string= name argument :start2 start))))))))

(destructuring-bind (file entry last) (arguments)
  (if (string= entry "compile")
      (multiple-value-bind (output warnings failure)
          (let ((*compile-verbose* nil) (*compile-print* nil)
                (*standard-output* (make-broadcast-stream)))
            (compile-file file :output-file last))
        (format t "~a: ~a, ~a, ~a~%" (pathname-name file)
                (if output "compiled" "not compiled") warnings failure))
      (progn
        (load file :verbose nil)
        (funcall (read-from-string entry) (parse-integer last)))))
(finish-output)
(ext:quit 0)
