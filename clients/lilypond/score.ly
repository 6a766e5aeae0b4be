%% score.ly: a score for an orchestra, made up in Scheme and always the same.
%%
%%   lilypond --ps -e '(define staves 12)' -e '(define bars 60)' -e '(define output "DIR/NAME")' score.ly
%%
%% Every staff has its own music: beams, slurs, tuplets, chords, grace notes, articulations, dynamics, words below
%% the notes; keys and metres change for all.  The whole score is typeset at once, so all of its pages live together.
%% DIR/NAME.ps is copied to standard output and removed.

\version "2.24.0"

#(use-modules (ice-9 binary-ports) (srfi srfi-1))

#(define staves (@@ (guile-user) staves))
#(define bars (@@ (guile-user) bars))
#(define output (@@ (guile-user) output))

%% A fixed pseudo-random sequence.
#(define state 2000)
#(define (below limit)
   (set! state (modulo (+ (* state 6364136223846793005) 1442695040888963407)
                       (expt 2 64)))
   (modulo (ash state -33) limit))
#(define (one-in count) (= 0 (below count)))
#(define (pick . choices) (list-ref choices (below (length choices))))

#(define (pitch octave)
   (ly:make-pitch octave (below 7) (pick 0 0 0 0 0 0 SHARP FLAT)))

%% A note, a chord or a rest of 2^-log, with what may hang on it.
#(define (articulation)
   (make-music 'ArticulationEvent
               'articulation-type (pick 'accent 'staccato 'tenuto 'marcato)))
#(define (dynamic)
   (make-music 'AbsoluteDynamicEvent 'text (pick "pp" "p" "mf" "f" "ff" "sfz")))
#(define (words)
   (make-music 'TextScriptEvent
               'direction UP
               'text (markup #:italic
                             (pick "dolce" "cantabile" "con fuoco" "ähnlich" "più mosso")
                             #:bold (number->string (below 1000)))))
#(define (note octave duration)
   (make-music 'NoteEvent
               'pitch (pitch octave)
               'duration duration
               'articulations (if (one-in 6) (list (articulation)) '())))
#(define (hang! note event)
   (set! (ly:music-property note 'articulations)
         (cons event (ly:music-property note 'articulations)))
   note)
#(define (chord octave duration)
   (make-music 'EventChord
               'elements (list-tabulate (+ 2 (below 3))
                                        (lambda (number) (note octave duration)))))
#(define (event octave duration)
   (cond ((one-in 9) (make-music 'RestEvent 'duration duration))
         ((one-in 7) (chord octave duration))
         ((one-in 8) (hang! (note octave duration) (dynamic)))
         ((one-in 12) (hang! (note octave duration) (words)))
         (else (note octave duration))))
#(define (span kind direction)
   (make-music kind 'span-direction direction))

%% What fills a quarter.
#(define (tuplet octave)
   (make-music 'TimeScaledMusic
               'numerator 2 'denominator 3
               'element (make-sequential-music
                         (list-tabulate 3 (lambda (number)
                                            (note octave (ly:make-duration 3 0 2/3)))))))
#(define (grace octave)
   (make-music 'GraceMusic
               'element (make-sequential-music (list (note octave (ly:make-duration 4))))))
#(define (figure octave)
   (case (below 6)
     ((0) (list (event octave (ly:make-duration 2))))
     ((1) (list (tuplet octave)))
     ((2) (list-tabulate 4 (lambda (number) (note octave (ly:make-duration 4)))))
     ((3) (list (note octave (ly:make-duration 3 1)) (note octave (ly:make-duration 4))))
     ((4) (list (grace octave) (note octave (ly:make-duration 2))))
     (else (list (hang! (note octave (ly:make-duration 3)) (span 'SlurEvent START))
                 (hang! (note octave (ly:make-duration 3)) (span 'SlurEvent STOP))))))

%% Keys and metres are the same in all staves.
#(define (quarters bar) (if (= 2 (modulo (quotient bar 8) 3)) 3 4))
#(define (changes bar)
   (append
    (if (= 0 (modulo bar 8))
        (list (make-music 'TimeSignatureMusic
                          'numerator (quarters bar) 'denominator 4 'beat-structure '())
              (make-music 'KeyChangeEvent
                          'tonic (ly:make-pitch 0 (modulo bar 7))
                          'pitch-alist (ly:transpose-key-alist
                                        '((0 . 0) (1 . 0) (2 . 0) (3 . 0) (4 . 0) (5 . 0) (6 . 0))
                                        (ly:make-pitch 0 (modulo bar 7)))))
        '())
    (if (= 0 (modulo bar 16))
        (list (make-music 'TempoChangeEvent
                          'metronome-count (+ 60 (modulo (* 7 bar) 90))
                          'tempo-unit (ly:make-duration 2)))
        '())))

#(define (voice octave)
   (make-sequential-music
    (append-map
     (lambda (bar)
       (append (changes bar)
               (append-map (lambda (quarter) (figure octave))
                           (iota (quarters bar)))))
     (iota bars))))

#(define (syllables)
   (make-music 'SequentialMusic
               'elements (list-tabulate
                          (* 3 bars)
                          (lambda (number)
                            (make-music 'LyricEvent
                                        'text (pick "glean" "sheaf" "Ähre" "gar" "be" "moisson")
                                        'duration (ly:make-duration 2))))))

#(define (staff number)
   (let* ((name (format #f "voice-~a" number))
          (notes (context-spec-music (voice (- 1 (modulo number 3))) 'Voice name))
          (clef (make-clef-set (pick "treble" "alto" "bass"))))
     (context-spec-music (make-sequential-music (list clef notes))
                         'Staff (format #f "staff-~a" number))))

%% Every fourth staff is sung.
#(define (part number)
   (if (= 0 (modulo number 4))
       (list (staff number)
             (context-spec-music (syllables) 'Lyrics (format #f "words-~a" number)))
       (list (staff number))))

#(define (group first)
   (context-spec-music
    (make-simultaneous-music
     (append-map part (iota (min 4 (- staves first)) first)))
    'StaffGroup (format #f "group-~a" first)))

#(define (orchestra)
   (make-simultaneous-music (map group (iota (ceiling-quotient staves 4) 0 4))))

#(define (copy-to-standard-output name)
   (put-bytevector (current-output-port)
                   (call-with-input-file name get-bytevector-all #:binary #t))
   (delete-file name))

\paper {
  #(set-paper-size "a3")
  ragged-last-bottom = ##t
  tagline = ##f
}

#(let ((book (ly:make-book $defaultpaper $defaultheader
                           (scorify-music (orchestra)))))
   (ly:book-process book $defaultpaper $defaultlayout output)
   (copy-to-standard-output (string-append output ".ps")))
