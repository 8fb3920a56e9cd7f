(data (i32.const 8192) "host.example/first/second")
(global $response (mut i32) (i32.const 0))
(global $a (mut i32) (i32.const 0))
(global $b (mut i32) (i32.const 0))
(global $c (mut i32) (i32.const 0))

;; A request to `/first` (0) or `/second` (1).
(func $to (param $which i32) (result i32) (local $made i32)
  (local.set $made (call $request (call $fields)))
  (drop (call $set-authority (local.get $made) (i32.const 1) (i32.const 8192) (i32.const 12)))
  (drop (call $set-path (local.get $made) (i32.const 1)
    (i32.add (i32.const 8204) (i32.mul (local.get $which) (i32.const 6)))
    (i32.add (i32.const 6) (local.get $which))))
  (local.get $made))

;; Sends a request. Its future, or 1000 and the case of an error code, negative.
(func $try-send (param $made i32) (result i32)
  (call $handle (local.get $made) (i32.const 0) (i32.const 0) (i32.const 1104))
  (if (i32.load8_u (i32.const 1104))
    (then (return (i32.sub (i32.const -1000) (i32.load8_u (i32.const 1112))))))
  (i32.load (i32.const 1112)))

(func $send (param $made i32) (result i32) (local $future i32)
  (if (i32.lt_s (local.tee $future (call $try-send (local.get $made))) (i32.const 0)) (then unreachable))
  (local.get $future))

(func $wait (param $future i32) (local $pollable i32)
  (local.set $pollable (call $subscribe (local.get $future)))
  (call $block (local.get $pollable))
  (call $drop-pollable (local.get $pollable)))

;; Polls two pollables, and drops them. The number that are ready, times 10, and the place of the first.
(func $poll-two (param $one i32) (param $two i32) (result i32)
  (i32.store (i32.const 1300) (local.get $one))
  (i32.store (i32.const 1304) (local.get $two))
  (call $poll (i32.const 1300) (i32.const 2) (i32.const 1104))
  (call $drop-pollable (local.get $one))
  (call $drop-pollable (local.get $two))
  (i32.add (i32.mul (i32.load (i32.const 1108)) (i32.const 10)) (i32.load (i32.load (i32.const 1104)))))

(func $seen (param $future i32) (result i32)
  (call $get (local.get $future) (i32.const 1200))
  (if (i32.eqz (i32.load8_u (i32.const 1200))) (then (return (i32.const 0))))
  (if (i32.load8_u (i32.const 1208)) (then (return (i32.const 2000))))
  (if (i32.load8_u (i32.const 1216))
    (then (return (i32.add (i32.const 1000) (i32.load8_u (i32.const 1224))))))
  (global.set $response (i32.load (i32.const 1224)))
  (call $status (global.get $response)))

;; A stream to the body of a request, which `$c` has.
(func $opened (param $made i32) (result i32)
  (call $body (local.get $made) (i32.const 1104))
  (if (i32.load8_u (i32.const 1104)) (then unreachable))
  (global.set $c (i32.load (i32.const 1108)))
  (call $body-stream (global.get $c) (i32.const 1104))
  (if (i32.load8_u (i32.const 1104)) (then unreachable))
  (i32.load (i32.const 1108)))

;; Drops the stream, and finishes `$c`. 0, or 1000 and the case of an error code.
(func $finished (param $stream i32) (result i32)
  (call $drop-output (local.get $stream))
  (call $finish (global.get $c) (i32.const 0) (i32.const 0) (i32.const 1104))
  (if (result i32) (i32.load8_u (i32.const 1104))
    (then (i32.add (i32.const 1000) (i32.load8_u (i32.const 1112))))
    (else (i32.const 0))))

;; The stream of the body of `$response`.
(func $incoming (result i32)
  (call $consume (global.get $response) (i32.const 1104))
  (if (i32.load8_u (i32.const 1104)) (then unreachable))
  (call $response-stream (i32.load (i32.const 1108)) (i32.const 1104))
  (if (i32.load8_u (i32.const 1104)) (then unreachable))
  (i32.load (i32.const 1108)))

;; The bytes of the body of `$response`.
(func $read (result i32) (local $stream i32) (local $count i32)
  (local.set $stream (call $incoming))
  (loop $more
    (global.set $heap (i32.const 65536))
    (call $read-some (local.get $stream) (i64.const 65536) (i32.const 1104))
    (if (i32.eqz (i32.load8_u (i32.const 1104)))
      (then (local.set $count (i32.add (local.get $count) (i32.load (i32.const 1112)))) (br $more))))
  (local.get $count))

;; `reconcile` answers that it is to be called again after this many milliseconds.
(func $say (param $number i32)
  (i32.store8 (i32.const 516) (i32.const 1))
  (i32.store (i32.const 524) (local.get $number)))
