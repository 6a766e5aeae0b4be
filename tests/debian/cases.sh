# The cases of run.sh: a program of a Debian package that depends on libgc1, and work for it whose result can be compared.
#
# Each is a function in a directory of its own. It runs the program behind "$@", which is nothing, for stock, or Gleaner's
# command, and prints what the program said and wrote. SMALL cases need little to be installed; `needs NAME` names packages.

SMALL="chase fauhdlc goo mmv parser3 objective-c homfly stalin"
ALL="$SMALL asymptote autogen debfoster inkscape lepton-netlist mailutils mod-parser3 weechat"
# For tests/distros alone: Debian 12 has no guile-fibers, and make-guile would take the place of make.
ELSEWHERE="guile-fibers make-guile"

needs() {
    case $1 in
    chase | fauhdlc | goo | mmv | stalin | asymptote | debfoster | inkscape) echo "$1" ;;
    mailutils) echo mailutils-mh ;;
    mod-parser3) echo libapache2-mod-parser3 ;;
    parser3) echo parser3-cgi ;;
    objective-c) echo gobjc ;;
    homfly) echo libhomfly-dev ;;
    autogen | make-guile | guile-fibers) echo "$1" ;;
    lepton-netlist) echo lepton-eda ;;
    weechat) echo weechat-guile ;;
    esac
}

# How many programs a case runs, at least.
programs() {
    case $1 in
    stalin | inkscape) echo 2 ;;
    *) echo 1 ;;
    esac
}

# Fills a template with a list of definitions, by Guile.
run_autogen() {
    cat >list.def <<'END'
autogen definitions list;
END
    for i in $(seq 1 300); do printf 'entry = { name = name%s; text = "text %s"; };\n' "$i" "$i"; done >>list.def
    cat >list.tpl <<'END'
[= AutoGen5 template txt =]
[= FOR entry "\n" =][= (string-upcase (get "name")) =]: [= text =] [= (length (iota (+ 100 (string-length (get "text"))))) =][= ENDFOR =]
END
    "$@" autogen -L . list.def
    cat list.txt
}

# Fibers that each send what they counted: their stacks are Guile's, their scheduler sends itself signals.
run_guile-fibers() {
    cat >fibers.scm <<'END'
(use-modules (fibers) (fibers channels))
(define count 3000)
(run-fibers
 (lambda ()
   (let ((channel (make-channel)))
     (do ((i 0 (+ i 1))) ((= i count))
       (spawn-fiber (lambda () (put-message channel (length (map list (iota (modulo i 300))))))))
     (let loop ((i 0) (sum 0))
       (if (< i count)
           (loop (+ i 1) (+ sum (get-message channel)))
           (begin (display sum) (newline)))))))
END
    "$@" guile --no-auto-compile fibers.scm
}

# A schematic of resistors, read and named by Guile.
run_lepton-netlist() {
    {
        echo 'v 20200319 2'
        for i in $(seq 1 60); do
            printf 'C 1000 %s 1 0 0 EMBEDDEDr.sym\n[\nP 0 0 100 0 1 0 0\n{\nT 0 0 5 8 0 1 0 0 1\npinnumber=1\n' "$((i * 1000))"
            printf 'T 0 0 5 8 0 1 0 0 1\npinseq=1\n}\n]\n{\nT 0 0 5 10 1 1 0 0 1\nrefdes=R%s\nT 0 0 5 10 0 0 0 0 1\nnet=line%s:1\n}\n' "$i" "$((i % 7))"
        done
    } >some.sch
    "$@" lepton-netlist -q -g geda -o some.net some.sch
    cat some.net
}

# Rules that Guile computes.
run_make-guile() {
    cat >Makefile <<'END'
names := $(guile (map (lambda (i) (string-append "rule-" (number->string i))) (iota 200)))
all: $(names)
$(names):
	@echo $@ $(guile (length (map list (iota 20000))))
END
    "$@" make --no-print-directory all
}

# A chat program that runs a script, says what that said, and leaves.
run_weechat() {
    cat >script.scm <<'END'
(weechat:register "count" "nobody" "1" "MIT" "counts" "" "")
(define (again i) (if (> i 0) (begin (map list (iota 1000)) (again (- i 1)))))
(again 300)
(call-with-output-file (getenv "SAID") (lambda (port) (display (length (map list (iota 5000))) port) (newline port)))
END
    SAID=$PWD/said "$@" weechat-headless --dir "$PWD/home" --run-command "/guile load $PWD/script.scm" --run-command /quit >/dev/null 2>errors
    sed 's/.*\(gleaner: \)/\1/' errors >&2 # without what it says to a terminal
    cat said
}

# Follows symbolic links.
run_chase() {
    touch end
    ln -s end link1
    for i in $(seq 1 30); do ln -s "link$i" "link$((i + 1))"; done
    "$@" chase link31
}

# Compiles VHDL to the code of its interpreter.
run_fauhdlc() {
    {
        echo 'entity test_bench is end entity;'
        echo 'architecture behaviour of test_bench is'
        for i in $(seq 1 200); do
            echo "function f$i(n : integer) return integer is begin if n < 2 then return n; end if; return f$i(n - 1) + f$i(n - 2); end function;"
        done
        echo 'begin process variable v : integer; begin'
        for i in $(seq 1 200); do echo "v := f$i($i);"; done
        echo 'wait; end process; end architecture;'
    } >bench.vhd
    "$@" fauhdlc -o bench.code bench.vhd
    cat bench.code
}

# A Lisp that compiles what it reads to C, and loads that or interprets it.
run_goo() {
    cat >input <<'END'
(df fib (n|<int> => <int>) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(fib 15)
(df numbers (n|<int>) (if (= n 0) '() (pair n (numbers (- n 1)))))
(df again (i|<int>) (if (= i 0) 'done (seq (numbers 200) (again (- i 1)))))
(again 50)
(map (fun (x) (* x x)) (numbers 20))
END
    "$@" goo <input
}

# Takes mail in, and asks a filter in Guile about each message.
run_mailutils() {
    export HOME=$PWD
    mkdir -p Mail/inbox
    echo 'Path: Mail' >.mh_profile
    for i in $(seq 1 50); do
        printf 'From a@example.org Thu Jan  1 00:00:00 2026\nFrom: a@example.org\nSubject: number %s\n' "$i"
        printf 'Date: Thu, 1 Jan 2026 00:00:00 +0000\n\nhello\n\n'
    done >spool
    cat >filter.scm <<'END'
(define (count n)
  (let loop ((i 0) (list '()))
    (if (< i n) (loop (+ i 1) (cons (number->string i) list)) (length list))))
(define (mailutils-check-message message)
  (display (count 20000))
  (newline)
  #t)
END
    "$@" /usr/bin/mu-mh/inc -file spool -language scheme -script "$PWD/filter.scm" -notruncate +inbox </dev/null
    ls Mail/inbox
}

# Renames many files by patterns.
run_mmv() {
    for i in $(seq 1 300); do touch "file-$i.text"; done
    "$@" mmv 'file-*.text' '#1.of.many'
    ls
}

# A page with a script in it.
run_parser3() {
    cat >page.html <<'END'
@main[]
$response:charset[UTF-8]
$numbers[^hash::create[]]
^for[i](1;2000){$numbers.[key$i](^eval($i * $i))}
^numbers.foreach[key;value]{$key is $value}[
]
$table[^table::create{name	count
one	1
two	2}]
^table.menu{$table.name ^for[i](1;200){^string:base64[$table.name $i]}
}
END
    "$@" parser3 page.html
}

# The same in a web server, which loads it as a module and serves it to one client on the loopback interface.
run_mod-parser3() {
    local site port server modules=/usr/lib/apache2/modules
    site=$(mktemp -d) # where the user that serves may read
    chmod 755 "$site"
    cat >"$site/page.html" <<'END'
@main[]
$table[^table::create{name	value
one	1
two	2}]
^table.menu{$table.name ^for[i](1;200){^string:base64[$table.name $i]}
}
END
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    cat >apache.conf <<END
ServerRoot $PWD
ServerName localhost
Listen 127.0.0.1:$port
PidFile $PWD/pid
ErrorLog $PWD/errors
LoadModule mpm_prefork_module $modules/mod_mpm_prefork.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule mime_module $modules/mod_mime.so
LoadModule parser3_module $modules/mod_parser3.so
TypesConfig /etc/mime.types
User www-data
Group www-data
DocumentRoot $site
<Directory $site>
Require all granted
AddHandler parser3-handler html
</Directory>
END
    "$@" /usr/sbin/apache2 -X -f "$PWD/apache.conf" &
    server=$!
    python3 - "http://127.0.0.1:$port/page.html" <<'END' || { kill "$server"; cat errors >&2; rm -r "$site"; return 1; }
import sys, time, urllib.request

def page():
    return urllib.request.urlopen(sys.argv[1]).read()

for _ in range(600):  # until it listens
    try:
        page()
        break
    except urllib.error.URLError:
        time.sleep(0.05)
pages = {page() for _ in range(300)}
sys.stdout.buffer.writelines(pages)
END
    kill "$server"
    wait "$server" || true
    cat errors >&2 # where its standard error goes
    rm -r "$site"
}

# Objects of Objective-C on the collector, as libobjc_gc has them.
run_objective-c() {
    cat >list.m <<'END'
#include <objc/objc.h>
#include <objc/runtime.h>
#include <stdio.h>
@interface Node { Class isa; @public id next; int value; }
+ (id) make: (int) number with: (id) rest;
- (int) sum;
@end
@implementation Node
+ (id) make: (int) number with: (id) rest
{
    Node *node = class_createInstance(self, 0);
    node->value = number;
    node->next = rest;
    return node;
}
- (int) sum
{
    int total = 0;
    for (Node *node = self; node != nil; node = node->next)
        total += node->value;
    return total;
}
@end
int main(void)
{
    int total = 0;
    for (int round = 0; round < 100; round++) {
        id list = nil;
        for (int i = 0; i < 5000; i++)
            list = [Node make: i + round with: list];
        total ^= [list sum];
    }
    printf("%d\n", total);
    return 0;
}
END
    gcc -std=gnu11 -O1 -fobjc-gc -o list list.m -lobjc_gc
    "$@" ./list
}

# The polynomial of knots.
run_homfly() {
    cat >knots.c <<'END'
#include <homfly.h>
#include <stdio.h>
int main(void)
{
    char trefoil[] = "1 6 0 1 1 -1 2 1 0 -1 1 1 2 -1 0 1 1 1 2 1";
    const char *polynomial = NULL;
    for (int i = 0; i < 5000; i++)
        polynomial = homfly_str(trefoil);
    puts(polynomial);
    return 0;
}
END
    gcc -o knots knots.c -lhomfly -lgc
    "$@" ./knots
}

# Compiles Scheme to a program that has libgc in it as well.
run_stalin() {
    cat >lists.sc <<'END'
(define (numbers n) (if (= n 0) '() (cons n (numbers (- n 1)))))
(define (again i) (if (> i 0) (begin (numbers 1000) (again (- i 1)))))
(again 5000)
(display (apply + (numbers 100)))
(newline)
END
    "$@" stalin -On lists.sc
    "$@" ./lists
}

# Draws a picture.
run_asymptote() {
    cat >picture.asy <<'END'
real[] sums;
for (int i = 0; i < 300; ++i) {
    pair z = expi(i * 0.1);
    draw(z .. (z * 1.5){dir(30)} .. (2z));
    sums.push(sum(sequence(new real(int k) { return k * i; }, 500)));
}
write(sum(sums));
END
    "$@" asy -noV -f eps -o picture picture.asy
    grep -v CreationDate picture.eps
}

# What a package needs.
run_debfoster() {
    "$@" debfoster -k keepers -d guile-3.0-libs </dev/null
}

# Measures and paints a drawing.
run_inkscape() {
    {
        echo '<svg xmlns="http://www.w3.org/2000/svg" width="300" height="300">'
        for i in $(seq 1 200); do
            echo "<path id=\"p$i\" d=\"M$i 0 C 10 $i, 200 $i, 300 $i z\" fill=\"none\" stroke=\"blue\"/>"
        done
        echo '</svg>'
    } >drawing.svg
    "$@" inkscape --query-all drawing.svg
    "$@" inkscape --export-type=png -o drawing.png drawing.svg
    sha256sum <drawing.png
}
