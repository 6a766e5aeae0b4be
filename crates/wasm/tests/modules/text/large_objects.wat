;; 160 million objects of 32 bytes with compressed references, 5.1 GB, that all live in the end, in 256 lists. Between any two of
;; them one object is allocated that dies. Prints `right`, or traps.
(module
  (type $node (struct
    (field $next (ref null $node)) (field $before (mut (ref null $node)))
    (field $number i64) (field $double i64)))
  (type $lists (array (mut (ref null $node))))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\06\00\00\00")
  (data (i32.const 16) "right\n")
  (global $nodes i64 (i64.const 160000000))

  (func $list_of (param $number i64) (result i32)
    (i32.wrap_i64 (i64.and (local.get $number) (i64.const 255))))

  (func $build (param $lists (ref $lists))
    (local $number i64) (local $last (ref null $node)) (local $node (ref null $node))
    (loop $more
      (local.set $node (struct.new $node
        (array.get $lists (local.get $lists) (call $list_of (local.get $number)))
        (ref.null $node)
        (local.get $number) (i64.mul (local.get $number) (i64.const 2))))
      (array.set $lists (local.get $lists) (call $list_of (local.get $number)) (local.get $node))
      ;; One that dies, and leads to one that does not.
      (drop (struct.new $node (local.get $node) (local.get $last) (i64.const -1) (i64.const -1)))
      ;; Into a node that may have moved.
      (struct.set $node $before (local.get $node) (local.get $last))
      (local.set $last (local.get $node))
      (local.set $number (i64.add (local.get $number) (i64.const 1)))
      (br_if $more (i64.lt_u (local.get $number) (global.get $nodes)))))

  ;; How many nodes a list has, each of which is what it was.
  (func $count (param $node (ref null $node)) (param $list i32) (result i64)
    (local $count i64) (local $number i64)
    (block $end
      (loop $more
        (br_if $end (ref.is_null (local.get $node)))
        (local.set $number (struct.get $node $number (local.get $node)))
        (if (i32.ne (call $list_of (local.get $number)) (local.get $list)) (then (unreachable)))
        (if (i64.ne (struct.get $node $double (local.get $node)) (i64.mul (local.get $number) (i64.const 2)))
          (then (unreachable)))
        (if (i64.ne (local.get $number) (i64.const 0))
          (then (if (i64.ne (struct.get $node $number (struct.get $node $before (local.get $node)))
                      (i64.sub (local.get $number) (i64.const 1)))
            (then (unreachable)))))
        (local.set $count (i64.add (local.get $count) (i64.const 1)))
        (local.set $node (struct.get $node $next (local.get $node)))
        (br $more)))
    (local.get $count))

  (func (export "_start")
    (local $lists (ref $lists)) (local $list i32) (local $count i64)
    (local.set $lists (array.new_default $lists (i32.const 256)))
    (call $build (local.get $lists))
    (loop $each
      (local.set $count (i64.add (local.get $count)
        (call $count (array.get $lists (local.get $lists) (local.get $list)) (local.get $list))))
      (local.set $list (i32.add (local.get $list) (i32.const 1)))
      (br_if $each (i32.lt_u (local.get $list) (i32.const 256))))
    (if (i64.ne (local.get $count) (global.get $nodes)) (then (unreachable)))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))
