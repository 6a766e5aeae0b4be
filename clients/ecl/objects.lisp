;;;; objects.lisp: classes, generic functions, structures, strings, hash
;;;; tables, closures, big integers and conditions.
;;;;
;;;; (run-objects SCALE) simulates a warehouse: orders come in, are split over
;;;; shelves, packed and shipped; a ledger keeps every shipped order.

(defpackage :objects (:use :cl) (:export #:run-objects))
(in-package :objects)

(defclass thing ()
  ((name :initarg :name :reader name)
   (tags :initform '() :accessor tags)))

(defclass order (thing)
  ((lines :initform (make-array 4 :adjustable t :fill-pointer 0)
          :reader lines)
   (state :initform :new :accessor state)))

(defclass urgent-order (order)
  ((deadline :initarg :deadline :reader deadline)))

(defstruct line item (count 0 :type fixnum) (price 0))

(define-condition out-of-stock (error)
  ((item :initarg :item :reader missing-item)))

(defvar *seed* 12345)

(defun random-below (limit)
  (setf *seed* (mod (+ (* *seed* 1103515245) 12345) 2147483648))
  (mod (ash *seed* -8) limit))

;;; The ledger: shipped orders by name, and a history per item.

(defvar *ledger* (make-hash-table :test #'equal))
(defvar *history* (make-hash-table :test #'equal))
(defvar *stock* (make-hash-table :test #'equal))
(defvar *audits* '())

(defgeneric pack (order))
(defgeneric value (thing))

(defmethod value ((order order))
  (loop for line across (lines order)
        sum (* (line-count line) (line-price line))))

(defmethod value :around ((order urgent-order))
  (floor (* 3 (call-next-method)) 2))

(defmethod pack ((order order))
  (loop for line across (lines order)
        do (take-from-stock (line-item line) (line-count line)))
  (setf (state order) :packed))

(defmethod pack :after ((order urgent-order))
  (push (format nil "urgent by ~d" (deadline order)) (tags order)))

(defmethod initialize-instance :after ((order order) &key (size 3))
  (dotimes (i size)
    (vector-push-extend
     (make-line :item (item-name (random-below 500))
                :count (1+ (random-below 9))
                :price (/ (1+ (random-below 1000)) (1+ (random-below 8))))
     (lines order))))

(defun item-name (number)
  (concatenate 'string "item-" (string-downcase (format nil "~r" number))))

(defun take-from-stock (item count)
  (let ((left (- (gethash item *stock* 0) count)))
    (when (minusp left)
      (restart-case (error 'out-of-stock :item item)
        (refill (amount)
          (incf left amount))))
    (setf (gethash item *stock*) left)
    (push count (gethash item *history*))))

(defun make-order (number)
  (let ((name (format nil "order-~6,'0d" number)))
    (if (zerop (random-below 4))
        (make-instance 'urgent-order :name name :size (1+ (random-below 6))
                                     :deadline (random-below 30))
        (make-instance 'order :name name :size (1+ (random-below 6))))))

(defun ship (order)
  (handler-bind ((out-of-stock
                   (lambda (condition)
                     (declare (ignore condition))
                     (invoke-restart 'refill 100))))
    (pack order))
  (setf (state order) :shipped
        (gethash (name order) *ledger*) order)
  ;; A closure that keeps the order, and its value as it was.
  (let ((value (value order)))
    (push (lambda () (= value (value order))) *audits*)))

(defun ledger-total ()
  (loop for order being the hash-values of *ledger* sum (value order)))

(defun big-product (count)
  (let ((product 1))
    (loop for i from 1 to count
          do (setf product (* product (+ i (length *audits*)))))
    (mod product 1000000007)))

(defun text-report ()
  (let ((lines '()))
    (maphash (lambda (item counts)
               (push (format nil "~a ~d ~d" item (length counts)
                             (reduce #'+ counts))
                     lines))
             *history*)
    (let ((text (with-output-to-string (out)
                  (dolist (line (sort lines #'string<))
                    (write-line line out)))))
      (values (length text)
              (reduce (lambda (sum c) (mod (+ (* 31 sum) (char-code c)) 1000003))
                      text :initial-value 7)))))

(defun run-objects (scale)
  (dotimes (round scale)
    (dotimes (i 500)
      (ship (make-order (+ i (* 500 round)))))
    (multiple-value-bind (length digest) (text-report)
      (when (zerop (mod round 5))
        (format t "round ~d: ledger ~d, total ~a, report ~d ~d~%" round
                (hash-table-count *ledger*) (ledger-total) length digest))))
  (format t "audits ~a of ~d, product ~d~%"
          (count-if #'funcall *audits*) (length *audits*)
          (big-product (* 100 scale))))
