;;;; logic.lisp: a small logic language and programs in it.
;;;;
;;;; (run-logic SCALE) solves by depth-first search with success continuations.
;;;; Terms are conses and structures; variables are bound in place and undone
;;;; by a trail.  Clauses are copied at each call, so that nearly everything
;;;; allocated dies young, while the trail and the continuations keep the
;;;; current branch alive.

(defpackage :logic (:use :cl) (:export #:run-logic))
(in-package :logic)

(defstruct (variable (:constructor make-variable (name)))
  name
  (value nil)
  (bound nil))

(defvar *trail* (make-array 64 :adjustable t :fill-pointer 0))
(defvar *clauses* (make-hash-table))
(defvar *inferences* 0)

(defun dereference (term)
  (loop while (and (variable-p term) (variable-bound term))
        do (setf term (variable-value term)))
  term)

(defun bind (variable value)
  (setf (variable-value variable) value
        (variable-bound variable) t)
  (vector-push-extend variable *trail*)
  t)

(defun undo-to (mark)
  (loop while (> (fill-pointer *trail*) mark)
        do (let ((variable (vector-pop *trail*)))
             (setf (variable-bound variable) nil
                   (variable-value variable) nil))))

(defun unify (a b)
  (let ((a (dereference a)) (b (dereference b)))
    (cond ((eq a b) t)
          ((variable-p a) (bind a b))
          ((variable-p b) (bind b a))
          ((and (consp a) (consp b))
           (and (unify (car a) (car b)) (unify (cdr a) (cdr b))))
          (t (eql a b)))))

(defun resolve (term)
  (let ((term (dereference term)))
    (if (consp term)
        (cons (resolve (car term)) (resolve (cdr term)))
        term)))

(defun variable-name-p (symbol)
  (and (symbolp symbol)
       (plusp (length (symbol-name symbol)))
       (char= #\? (char (symbol-name symbol) 0))))

(defun rename (term names)
  "A copy of TERM with fresh variables; NAMES is a hash table."
  (cond ((variable-name-p term)
         (or (gethash term names)
             (setf (gethash term names) (make-variable term))))
        ((consp term)
         (cons (rename (car term) names) (rename (cdr term) names)))
        (t term)))

(defun add-clause (head &rest body)
  (setf (gethash (car head) *clauses*)
        (append (gethash (car head) *clauses*) (list (cons head body)))))

(defmacro clauses (&rest list)
  `(progn ,@(loop for clause in list
                  collect `(add-clause ,@(loop for goal in clause
                                               collect `',goal)))))

;;; A goal that is arithmetic, or a call.

(defun evaluate (term)
  (let ((term (dereference term)))
    (if (consp term)
        (let ((a (evaluate (second term))) (b (evaluate (third term))))
          (ecase (first term) (+ (+ a b)) (- (- a b)) (* (* a b))))
        term)))

(defun solve (goals continue)
  (if (null goals)
      (funcall continue)
      (let ((goal (dereference (car goals))) (rest (cdr goals)))
        (incf *inferences*)
        (case (car goal)
          (is (let ((mark (fill-pointer *trail*)))
                (when (unify (second goal) (evaluate (third goal)))
                  (solve rest continue))
                (undo-to mark)))
          (differ (unless (eql (evaluate (second goal)) (evaluate (third goal)))
                    (solve rest continue)))
          (less (when (< (evaluate (second goal)) (evaluate (third goal)))
                  (solve rest continue)))
          (t (call-clauses goal rest continue))))))

(defun call-clauses (goal rest continue)
  (dolist (clause (gethash (car goal) *clauses*))
    (let* ((mark (fill-pointer *trail*))
           (fresh (rename clause (make-hash-table :size 8))))
      (when (unify (cdr goal) (cdar fresh))
        (solve (append (cdr fresh) rest) continue))
      (undo-to mark))))

(defun answers (pattern &rest goals)
  "All values of PATTERN for which GOALS hold."
  (let* ((names (make-hash-table))
         (goals (rename goals names))
         (pattern (rename pattern names))
         (found '()))
    (solve goals (lambda () (push (resolve pattern) found)))
    (nreverse found)))

;;; Programs.

(clauses
 ((append () ?a ?a))
 ((append (?x . ?a) ?b (?x . ?c)) (append ?a ?b ?c))
 ((reverse () ()))
 ((reverse (?x . ?a) ?b) (reverse ?a ?c) (append ?c (?x) ?b))
 ((select ?x (?x . ?a) ?a))
 ((select ?x (?y . ?a) (?y . ?b)) (select ?x ?a ?b))
 ((queens ?all ?placed) (place ?all () ?placed))
 ((place () ?placed ?placed))
 ((place ?free ?so-far ?placed)
  (select ?q ?free ?rest) (safe ?q 1 ?so-far)
  (place ?rest (?q . ?so-far) ?placed))
 ((safe ?q ?d ()))
 ((safe ?q ?d (?p . ?rest))
  (differ ?p (+ ?q ?d)) (differ ?p (- ?q ?d))
  (is ?e (+ ?d 1)) (safe ?q ?e ?rest))
 ((edge ?a ?b) (less ?a 12) (is ?b (+ ?a 1)))
 ((edge ?a ?b) (less ?a 11) (is ?b (+ ?a 2)))
 ((path ?a ?a (?a)))
 ((path ?a ?b (?a . ?rest)) (edge ?a ?c) (path ?c ?b ?rest)))

(defun numbers (from to)
  (loop for i from from to to collect i))

(defun checksum (answers)
  (let ((sum 7))
    (labels ((walk (x)
               (cond ((consp x) (walk (car x)) (walk (cdr x)))
                     ((integerp x)
                      (setf sum (mod (+ x (* 31 sum)) 1000000007))))))
      (walk answers))
    sum))

(defun report (name answers)
  (format t "~a: ~d answers, checksum ~d~%"
          name (length answers) (checksum answers)))

(defun run-logic (scale)
  (report "reverse" (answers '?r `(reverse ,(numbers 1 (* 10 scale)) ?r)))
  (report "splits" (answers '(?a ?b) `(append ?a ?b ,(numbers 1 (* 10 scale)))))
  (report "queens" (answers '?q `(queens ,(numbers 1 scale) ?q)))
  (report "paths" (answers '?p `(path ,(max 1 (- 13 (* 2 scale))) 12 ?p)))
  (format t "~d inferences~%" *inferences*))
