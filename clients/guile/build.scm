;;; build.scm SOURCE OUTPUT: compiles a program, as guild does, which is in
;;; another Debian package than Guile.

(use-modules (system base compile))

(apply (lambda (source output)
         (compile-file source #:output-file output #:optimization-level 2))
       (cdr (command-line)))
