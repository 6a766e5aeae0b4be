; An error that nobody handles ends the program.
(print "before")
(car (quote ()))
(print "never")
