;; A live set of 2.5 GB in 40 arrays of 64 MB, of which each is replaced once while the others live. Prints `right`, or traps.
(module
  (type $longs (array (mut i64)))
  (type $kept (array (mut (ref null $longs))))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\06\00\00\00")
  (data (i32.const 16) "right\n")
  (global $arrays i32 (i32.const 40))
  (global $length i32 (i32.const 8388608))

  ;; An array whose elements are `first`, `first + 1` and so on.
  (func $new (param $first i64) (result (ref $longs))
    (local $array (ref $longs)) (local $i i32)
    (local.set $array (array.new_default $longs (global.get $length)))
    (loop $more
      (array.set $longs (local.get $array) (local.get $i)
        (i64.add (local.get $first) (i64.extend_i32_u (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $i) (global.get $length))))
    (local.get $array))

  (func $check (param $array (ref null $longs)) (param $first i64)
    (local $i i32)
    (if (i32.ne (array.len (local.get $array)) (global.get $length)) (then (unreachable)))
    (loop $more
      (if (i64.ne (array.get $longs (local.get $array) (local.get $i))
            (i64.add (local.get $first) (i64.extend_i32_u (local.get $i))))
        (then (unreachable)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $i) (global.get $length)))))

  (func $first (param $number i32) (param $turn i32) (result i64)
    (i64.mul (i64.extend_i32_u (i32.add (local.get $number) (i32.mul (local.get $turn) (i32.const 1000))))
      (i64.const 1000003)))

  (func (export "_start")
    (local $kept (ref $kept)) (local $number i32) (local $turn i32)
    (local.set $kept (array.new_default $kept (global.get $arrays)))
    (loop $turns
      (local.set $number (i32.const 0))
      (loop $each
        ;; The one before is dead when its successor is allocated.
        (array.set $kept (local.get $kept) (local.get $number) (ref.null $longs))
        (array.set $kept (local.get $kept) (local.get $number)
          (call $new (call $first (local.get $number) (local.get $turn))))
        (local.set $number (i32.add (local.get $number) (i32.const 1)))
        (br_if $each (i32.lt_u (local.get $number) (global.get $arrays))))
      (local.set $turn (i32.add (local.get $turn) (i32.const 1)))
      (br_if $turns (i32.lt_u (local.get $turn) (i32.const 2))))
    (local.set $number (i32.const 0))
    (loop $all
      (call $check (array.get $kept (local.get $kept) (local.get $number))
        (call $first (local.get $number) (i32.const 1)))
      (local.set $number (i32.add (local.get $number) (i32.const 1)))
      (br_if $all (i32.lt_u (local.get $number) (global.get $arrays))))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))
