(let ((lists (loop repeat 50 collect (make-list 10000))))
  (format t "~a~%" (reduce #'+ (mapcar #'length lists))))
(quit)
