;; `wasi_snapshot_preview1` for plugins. It has no files, no sockets, no environment and one argument. A clock and randomness replace
;; those of the host, and output goes to the plugin's log. adapter.rs generates the functions `$text_…`: each puts a text at an address
;; and returns its length, because an adapter may have no data of its own. Their type is `(func (param i32) (result i32))`.
;;
;; An adapter has no memory either, so at the start of each call the plugin's SDK calls `windlass_enter`, which lends it memory. Then it
;; fetches the host's time and a seed. It cannot fetch them later: Go asks for the time within `cabi_realloc`, where a component must not
;; call out (wasmtime issue 14318). `windlass_end` ends the call, and says whether the plugin got the time or random data.
;; An SDK may call `windlass_begin` instead, with a time and a seed that it has fetched itself.
(module
  (import "env" "memory" (memory 0))
  (import "windlass:plugin/log@VERSION" "log" (func $log (param i32 i32 i32 i32 i32)))
  ;; From 0.3.0 on:
  (import "windlass:plugin/runtime@VERSION" "time" (func $host_time (result i64)))
  (import "windlass:plugin/runtime@VERSION" "seed" (func $host_seed (result i64)))
  (import "windlass:plugin/runtime@VERSION" "saw-time" (func $saw_time))
  (import "windlass:plugin/runtime@VERSION" "saw-random" (func $saw_random))

  ;; Begins a call, and returns its seed. The memory is as for `windlass_begin`. Without a function of Go that takes numbers from its
  ;; runtime's generator, the plugin gets random data only from here. With one, it may get data that follow from the seed unseen.
  (func (export "windlass_enter") (param $memory i32) (param $length i32) (result i64) (local $seed i64)
    (local.set $seed (call $host_seed))
    (call $begin (call $host_time) (local.get $seed) (local.get $memory) (local.get $length))
    (global.set $reports (i32.const 1))
    (global.set $drawn (i32.const DRAWS))
    (local.get $seed))
  ;; In all versions:

  ;; The monotonic clock in nanoseconds. It advances by one step at each reading, and by each sleep.
  (global $now (mut i64) (i64.const 0))
  ;; How far the wall clock is ahead of it. Before the first call, the wall clock starts at 2026-01-01T00:00:00Z.
  (global $epoch (mut i64) (i64.const 1767225600000000000))
  ;; The state of SplitMix64 (Steele, Lea, Flood 2014).
  (global $random (mut i64) (i64.const 0x9E3779B97F4A7C15))
  ;; The lent memory, or 0: 64 bytes for a field of the log, 448 bytes for a text, and a part for the unfinished line of each stream.
  (global $lent (mut i32) (i32.const 0))
  ;; The length of each stream's part, and how much of it each stream has used.
  (global $part (mut i32) (i32.const 0))
  (global $out (mut i32) (i32.const 0))
  (global $err (mut i32) (i32.const 0))
  ;; How long this call has slept, in nanoseconds, and what it has reported already: 1 for a sleep, 2 for a file, 4 for a socket.
  (global $slept (mut i64) (i64.const 0))
  (global $reported (mut i32) (i32.const 0))
  ;; Whether this call reports at its end what the plugin got; how often the wall clock was read in it, and whether random data were.
  (global $reports (mut i32) (i32.const 0))
  (global $looks (mut i32) (i32.const 0))
  (global $drawn (mut i32) (i32.const 0))
  ;; The number of readings before the line that is being logged, or -2.
  (global $line (mut i32) (i32.const -2))

  ;; Begins a call at the wall-clock time `$time`. The memory has at least 1 KiB and is lent for as long as the instance lives.
  (func $begin (export "windlass_begin") (param $time i64) (param $seed i64) (param $memory i32) (param $length i32)
    (global.set $epoch (i64.sub (local.get $time) (global.get $now)))
    (global.set $random (local.get $seed))
    (global.set $slept (i64.const 0))
    (global.set $reported (i32.const 0))
    (global.set $reports (i32.const 0))
    (global.set $looks (i32.const 0))
    (global.set $line (i32.const -2))
    (if (i32.ne (global.get $lent) (local.get $memory)) (then
      (global.set $out (i32.const 0))
      (global.set $err (i32.const 0))))
    (global.set $lent (local.get $memory))
    (global.set $part (i32.shr_u (i32.sub (local.get $length) (i32.const 512)) (i32.const 1))))

  ;; Ends a call. Text without an end of line is logged as a line too.
  (func $end (export "windlass_end")
    (call $flush (i32.const 1))
    (call $flush (i32.const 2))
    (if (global.get $reports) (then
      (global.set $reports (i32.const 0))
      (if (global.get $looks) (then (call $saw_time)))
      (if (global.get $drawn) (then (call $saw_random))))))

  ;; A logger that takes the time of each line although no one needs it calls this with 1 before, and with 0 when it has the line. If the
  ;; clock was read exactly once meanwhile, the plugin has not got the time.
  (func (export "windlass_line") (param $begins i32)
    (if (local.get $begins)
      (then (global.set $line (global.get $looks)))
      (else
        (if (i32.eq (global.get $looks) (i32.add (global.get $line) (i32.const 1)))
          (then (global.set $looks (global.get $line))))
        (global.set $line (i32.const -2)))))

  ;; --- Output ---

  ;; The address at which stream 1 or 2 keeps its unfinished line.
  (func $line (param $fd i32) (result i32)
    (i32.add (i32.add (global.get $lent) (i32.const 512))
      (i32.mul (i32.sub (local.get $fd) (i32.const 1)) (global.get $part))))

  (func $used (param $fd i32) (result i32)
    (select (global.get $out) (global.get $err) (i32.eq (local.get $fd) (i32.const 1))))

  (func $use (param $fd i32) (param $used i32)
    (if (i32.eq (local.get $fd) (i32.const 1))
      (then (global.set $out (local.get $used)))
      (else (global.set $err (local.get $used)))))

  ;; The length in bytes of the UTF-8 character that begins here, or 0 if the bytes are not UTF-8.
  (func $character (param $at i32) (param $length i32) (result i32)
    (local $first i32) (local $second i32) (local $size i32) (local $next i32)
    (local.set $first (i32.load8_u (local.get $at)))
    (if (i32.lt_u (local.get $first) (i32.const 0x80)) (then (return (i32.const 1))))
    (if (i32.gt_u (i32.sub (local.get $first) (i32.const 0xC2)) (i32.const 0x32)) (then (return (i32.const 0))))
    (local.set $size (i32.add (i32.const 2) (i32.add
      (i32.ge_u (local.get $first) (i32.const 0xE0)) (i32.ge_u (local.get $first) (i32.const 0xF0)))))
    (if (i32.gt_u (local.get $size) (local.get $length)) (then (return (i32.const 0))))
    ;; Refuse overlong forms (E0, F0), surrogates (ED), and values beyond the last character (F4).
    (local.set $second (i32.load8_u offset=1 (local.get $at)))
    (if (i32.and (i32.eq (local.get $first) (i32.const 0xE0)) (i32.lt_u (local.get $second) (i32.const 0xA0)))
      (then (return (i32.const 0))))
    (if (i32.and (i32.eq (local.get $first) (i32.const 0xED)) (i32.gt_u (local.get $second) (i32.const 0x9F)))
      (then (return (i32.const 0))))
    (if (i32.and (i32.eq (local.get $first) (i32.const 0xF0)) (i32.lt_u (local.get $second) (i32.const 0x90)))
      (then (return (i32.const 0))))
    (if (i32.and (i32.eq (local.get $first) (i32.const 0xF4)) (i32.gt_u (local.get $second) (i32.const 0x8F)))
      (then (return (i32.const 0))))
    (local.set $next (i32.const 1))
    (loop $more
      (if (i32.ne (i32.and (i32.load8_u (i32.add (local.get $at) (local.get $next))) (i32.const 0xC0)) (i32.const 0x80))
        (then (return (i32.const 0))))
      (local.set $next (i32.add (local.get $next) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $next) (local.get $size))))
    (local.get $size))

  ;; The number of bytes at the start that are valid UTF-8.
  (func $good (param $at i32) (param $length i32) (result i32) (local $good i32) (local $size i32)
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $good) (local.get $length)))
      (local.set $size (call $character
        (i32.add (local.get $at) (local.get $good)) (i32.sub (local.get $length) (local.get $good))))
      (br_if $done (i32.eqz (local.get $size)))
      (local.set $good (i32.add (local.get $good) (local.get $size)))
      (br $next)))
    (local.get $good))

  ;; Replaces each byte that is not UTF-8 by `?`, because the host ends a call that passes one. (U+FFFD might not fit.)
  (func $mend (param $at i32) (param $length i32) (local $good i32)
    (block $done (loop $next
      (local.set $good (call $good (local.get $at) (local.get $length)))
      (br_if $done (i32.eq (local.get $good) (local.get $length)))
      (local.set $at (i32.add (local.get $at) (local.get $good)))
      (i32.store8 (local.get $at) (i32.const 63))
      (local.set $length (i32.sub (local.get $length) (local.get $good)))
      (br $next))))

  ;; Logs text: of stdout at the level `info`, of stderr at `warn`.
  (func $emit (param $fd i32) (param $at i32) (param $length i32)
    (if (local.get $length) (then
      (call $mend (local.get $at) (local.get $length))
      (call $log (i32.add (local.get $fd) (i32.const 1)) (local.get $at) (local.get $length) (i32.const 0) (i32.const 0)))))

  (func $flush (param $fd i32) (local $used i32)
    (local.set $used (call $used (local.get $fd)))
    ;; Mark the text as logged first, so that it is not logged again if the log traps.
    (call $use (local.get $fd) (i32.const 0))
    (call $emit (local.get $fd) (call $line (local.get $fd)) (local.get $used)))

  ;; The length of a line's part that can be logged now, without a character at its end that may be incomplete.
  (func $whole (param $at i32) (param $length i32) (result i32) (local $end i32)
    (local.set $end (local.get $length))
    (block $done (loop $back
      (br_if $done (i32.le_u (local.get $end) (i32.sub (local.get $length) (i32.const 4))))
      (br_if $done (i32.eqz (local.get $end)))
      (local.set $end (i32.sub (local.get $end) (i32.const 1)))
      ;; 10xxxxxx continues a character.
      (br_if $back (i32.eq (i32.and (i32.load8_u (i32.add (local.get $at) (local.get $end))) (i32.const 0xC0)) (i32.const 0x80)))
      ;; 0xxxxxxx is a whole character.
      (if (i32.lt_u (i32.load8_u (i32.add (local.get $at) (local.get $end))) (i32.const 0x80))
        (then (return (local.get $length))))
      (return (local.get $end))))
    (local.get $length))

  ;; Adds a byte to a stream's line.
  (func $put (param $fd i32) (param $byte i32) (local $used i32) (local $whole i32) (local $at i32)
    (if (i32.eq (local.get $byte) (i32.const 10)) (then (call $flush (local.get $fd)) (return)))
    (local.set $used (call $used (local.get $fd)))
    (local.set $at (call $line (local.get $fd)))
    ;; A line that is longer than the stream's part is logged as several lines.
    (if (i32.ge_u (local.get $used) (global.get $part)) (then
      (local.set $whole (call $whole (local.get $at) (local.get $used)))
      (call $emit (local.get $fd) (local.get $at) (local.get $whole))
      (local.set $used (i32.sub (local.get $used) (local.get $whole)))
      (memory.copy (local.get $at) (i32.add (local.get $at) (local.get $whole)) (local.get $used))))
    (i32.store8 (i32.add (local.get $at) (local.get $used)) (local.get $byte))
    (call $use (local.get $fd) (i32.add (local.get $used) (i32.const 1))))

  ;; Logs text before memory was lent, without the end of its last line. The text belongs to the plugin and must not be changed, so
  ;; bytes that are not UTF-8 are left out, and split the text into lines.
  (func $bare (param $fd i32) (param $at i32) (param $length i32) (local $good i32)
    (if (local.get $length) (then
      (if (i32.eq (i32.load8_u (i32.sub (i32.add (local.get $at) (local.get $length)) (i32.const 1))) (i32.const 10))
        (then (local.set $length (i32.sub (local.get $length) (i32.const 1)))))
      (loop $next
        (local.set $good (call $good (local.get $at) (local.get $length)))
        (call $emit (local.get $fd) (local.get $at) (local.get $good))
        (if (i32.lt_u (local.get $good) (local.get $length)) (then
          (local.set $good (i32.add (local.get $good) (i32.const 1)))
          (local.set $at (i32.add (local.get $at) (local.get $good)))
          (local.set $length (i32.sub (local.get $length) (local.get $good)))
          (br $next)))))))

  (func $write (param $fd i32) (param $at i32) (param $length i32) (local $end i32)
    (if (i32.eqz (global.get $lent)) (then
      (call $bare (local.get $fd) (local.get $at) (local.get $length))
      (return)))
    (local.set $end (i32.add (local.get $at) (local.get $length)))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
      (call $put (local.get $fd) (i32.load8_u (local.get $at)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $next))))

  (func (export "fd_write") (param $fd i32) (param $parts i32) (param $count i32) (param $written i32) (result i32)
    (local $sum i32) (local $length i32)
    (if (i32.gt_u (i32.sub (local.get $fd) (i32.const 1)) (i32.const 1)) (then (return (i32.const 8))))
    (block $done (loop $next
      (br_if $done (i32.eqz (local.get $count)))
      (local.set $length (i32.load offset=4 (local.get $parts)))
      (call $write (local.get $fd) (i32.load (local.get $parts)) (local.get $length))
      (local.set $sum (i32.add (local.get $sum) (local.get $length)))
      (local.set $parts (i32.add (local.get $parts) (i32.const 8)))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br $next)))
    (i32.store (local.get $written) (local.get $sum))
    (i32.const 0))

  ;; --- What a plugin must not do. It is reported once in a call ---

  ;; Whether to report `$what`: there is memory for the text, and it has not been reported in this call.
  (func $is_news (param $what i32) (result i32) (local $is i32)
    (local.set $is (i32.and (i32.ne (global.get $lent) (i32.const 0))
      (i32.eqz (i32.and (global.get $reported) (local.get $what)))))
    (global.set $reported (i32.or (global.get $reported) (local.get $what)))
    (local.get $is))

  ;; Writes a field of the log to the start of the lent memory. Its name has `$name` bytes and is at offset 16.
  (func $field (param $name i32) (param $value i32) (param $length i32)
    (i32.store (global.get $lent) (i32.add (global.get $lent) (i32.const 16)))
    (i32.store offset=4 (global.get $lent) (local.get $name))
    (i32.store offset=8 (global.get $lent) (local.get $value))
    (i32.store offset=12 (global.get $lent) (local.get $length)))

  ;; The address of the adapter's texts, behind the field and its name.
  (func $place (result i32) (i32.add (global.get $lent) (i32.const 64)))

  ;; A path that is not UTF-8 is corrected in a copy behind the adapter's text, cut to the space before the unfinished lines.
  (func $no_file (param $path i32) (param $length i32) (local $text i32) (local $copy i32)
    (if (call $is_news (i32.const 2)) (then
      (local.set $text (call $text_file (call $place)))
      (if (i32.lt_u (call $good (local.get $path) (local.get $length)) (local.get $length)) (then
        (local.set $copy (i32.add (call $place) (local.get $text)))
        (if (i32.gt_u (local.get $length) (i32.sub (i32.const 448) (local.get $text)))
          (then (local.set $length (i32.sub (i32.const 448) (local.get $text)))))
        (memory.copy (local.get $copy) (local.get $path) (local.get $length))
        (call $mend (local.get $copy) (local.get $length))
        (local.set $path (local.get $copy))))
      (call $field (call $text_path (i32.add (global.get $lent) (i32.const 16))) (local.get $path) (local.get $length))
      (call $log (i32.const 3) (call $place) (local.get $text) (global.get $lent) (i32.const 1)))))

  (func $no_socket (result i32)
    (if (call $is_news (i32.const 4)) (then
      (call $log (i32.const 3) (call $place) (call $text_socket (call $place)) (i32.const 0) (i32.const 0))))
    (i32.const 8))

  (func (export "proc_exit") (param i32)
    (call $end)
    (if (global.get $lent) (then
      (call $log (i32.const 4) (call $place) (call $text_exit (call $place)) (i32.const 0) (i32.const 0))))
    (unreachable))

  ;; --- Time ---

  (func $look (result i64)
    (global.set $now (i64.add (global.get $now) (i64.const 1000)))
    (global.get $now))

  ;; Clock 0 is the wall clock. All others count from the start of the instance.
  (func (export "clock_time_get") (param $clock i32) (param i64) (param $time i32) (result i32)
    (if (i32.eqz (local.get $clock)) (then (global.set $looks (i32.add (global.get $looks) (i32.const 1)))))
    (i64.store (local.get $time)
      (i64.add (call $look) (select (i64.const 0) (global.get $epoch) (local.get $clock))))
    (i32.const 0))

  (func (export "clock_res_get") (param i32) (param $step i32) (result i32)
    (i64.store (local.get $step) (i64.const 1000))
    (i32.const 0))

  ;; Subscriptions are 48 bytes: user data at 0, kind at 8 (0: a clock), clock at 16, time at 24, flags at 40 (1: absolute).
  ;; The time at which the subscription of a clock is due, on the monotonic clock.
  (func $due (param $of i32) (result i64) (local $time i64)
    (local.set $time (i64.load offset=24 (local.get $of)))
    (if (i32.eqz (i32.and (i32.load16_u offset=40 (local.get $of)) (i32.const 1)))
      (then (return (i64.add (local.get $time) (global.get $now)))))
    ;; How far the clock moves until a time of day, and which of two subscriptions is due first, show the time of day.
    (if (i32.eqz (i32.load offset=16 (local.get $of))) (then
      (global.set $looks (i32.add (global.get $looks) (i32.const 1)))
      (return (i64.sub (local.get $time) (global.get $epoch)))))
    (local.get $time))

  ;; Sleeping only advances the clock. A long sleep is reported, because the plugin's author should know that it takes no time.
  (func $sleep_until (param $due i64)
    (if (i64.gt_s (local.get $due) (global.get $now)) (then
      (global.set $slept (i64.add (global.get $slept) (i64.sub (local.get $due) (global.get $now))))
      (global.set $now (local.get $due))))
    (if (i64.ge_s (global.get $slept) (i64.const 1000000000)) (then
      (if (call $is_news (i32.const 1)) (then
        (call $log (i32.const 3) (call $place) (call $text_sleep (call $place)) (i32.const 0) (i32.const 0)))))))

  ;; The earliest time at which a subscription is due: the largest number if there is none, and 0 if one is not of a clock, because
  ;; that is answered at once.
  (func $first (param $in i32) (param $count i32) (result i64) (local $first i64) (local $due i64)
    (local.set $first (i64.const 0x7fffffffffffffff))
    (block $done (loop $next
      (br_if $done (i32.eqz (local.get $count)))
      (local.set $due (if (result i64) (i32.load8_u offset=8 (local.get $in))
        (then (i64.const 0))
        (else (call $due (local.get $in)))))
      (if (i64.lt_s (local.get $due) (local.get $first)) (then (local.set $first (local.get $due))))
      (local.set $in (i32.add (local.get $in) (i32.const 48)))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br $next)))
    (local.get $first))

  ;; Events are 32 bytes: user data at 0, error at 8, kind at 10. Only clocks can be waited for; all else gets error 8.
  (func (export "poll_oneoff") (param $in i32) (param $events i32) (param $count i32) (param $stored i32) (result i32)
    (local $first i64) (local $kind i32) (local $sum i32)
    (if (i32.eqz (local.get $count)) (then (return (i32.const 28))))
    (local.set $first (call $first (local.get $in) (local.get $count)))
    ;; Compare before sleeping, because relative times count from now.
    (block $done (loop $next
      (br_if $done (i32.eqz (local.get $count)))
      (local.set $kind (i32.load8_u offset=8 (local.get $in)))
      (if (i32.or (i32.ne (local.get $kind) (i32.const 0)) (i64.le_s (call $due (local.get $in)) (local.get $first))) (then
        (i64.store (local.get $events) (i64.load (local.get $in)))
        (i64.store offset=8 (local.get $events) (i64.const 0))
        (i64.store offset=16 (local.get $events) (i64.const 0))
        (i64.store offset=24 (local.get $events) (i64.const 0))
        (i32.store8 offset=10 (local.get $events) (local.get $kind))
        (if (local.get $kind) (then (i32.store16 offset=8 (local.get $events) (i32.const 8))))
        (local.set $events (i32.add (local.get $events) (i32.const 32)))
        (local.set $sum (i32.add (local.get $sum) (i32.const 1)))))
      (local.set $in (i32.add (local.get $in) (i32.const 48)))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br $next)))
    (i32.store (local.get $stored) (local.get $sum))
    (call $sleep_until (local.get $first))
    (i32.const 0))

  (func (export "sched_yield") (result i32) (i32.const 0))

  ;; --- Randomness: the seed determines it, so it is not secret. Keys must be made with the host's `random` ---

  (func $next (result i64) (local $z i64)
    (global.set $random (i64.add (global.get $random) (i64.const 0x9E3779B97F4A7C15)))
    (local.set $z (global.get $random))
    (local.set $z (i64.mul (i64.xor (local.get $z) (i64.shr_u (local.get $z) (i64.const 30))) (i64.const 0xBF58476D1CE4E5B9)))
    (local.set $z (i64.mul (i64.xor (local.get $z) (i64.shr_u (local.get $z) (i64.const 27))) (i64.const 0x94D049BB133111EB)))
    (i64.xor (local.get $z) (i64.shr_u (local.get $z) (i64.const 31))))

  (func (export "random_get") (param $at i32) (param $length i32) (result i32) (local $end i32)
    (global.set $drawn (i32.const 1))
    (local.set $end (i32.add (local.get $at) (local.get $length)))
    (block $done (loop $more
      (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
      (i32.store8 (local.get $at) (i32.wrap_i64 (i64.shr_u (call $next) (i64.const 56))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $more)))
    (i32.const 0))

  ;; --- One argument, `plugin`, because some Go libraries read it at their start; no environment ---

  (func (export "args_sizes_get") (param $count i32) (param $length i32) (result i32)
    (i32.store (local.get $count) (i32.const 1))
    (i32.store (local.get $length) (i32.const 7))
    (i32.const 0))
  (func (export "args_get") (param $arguments i32) (param $text i32) (result i32)
    (i32.store (local.get $arguments) (local.get $text))
    (i32.store8 (i32.add (local.get $text) (call $text_plugin (local.get $text))) (i32.const 0))
    (i32.const 0))
  (func (export "environ_sizes_get") (param $count i32) (param $length i32) (result i32)
    (i32.store (local.get $count) (i32.const 0))
    (i32.store (local.get $length) (i32.const 0))
    (i32.const 0))
  (func (export "environ_get") (param i32 i32) (result i32) (i32.const 0))

  ;; --- The three streams are the only files: character devices (kind 2), open for reading (2) or writing (64) ---

  (func (export "fd_fdstat_get") (param $fd i32) (param $stat i32) (result i32)
    (if (i32.gt_u (local.get $fd) (i32.const 2)) (then (return (i32.const 8))))
    (i64.store (local.get $stat) (i64.const 2))
    (i64.store offset=8 (local.get $stat) (select (i64.const 64) (i64.const 2) (local.get $fd)))
    (i64.store offset=16 (local.get $stat) (i64.const 0))
    (i32.const 0))
  ;; The input is empty.
  (func (export "fd_read") (param $fd i32) (param i32 i32) (param $read i32) (result i32)
    (if (local.get $fd) (then (return (i32.const 8))))
    (i32.store (local.get $read) (i32.const 0))
    (i32.const 0))
  (func (export "fd_close") (param i32) (result i32) (i32.const 8))
  (func (export "fd_seek") (param i32 i64 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_tell") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_flags") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_rights") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_prestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_dir_name") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_advise") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_allocate") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_datasync") (param i32) (result i32) (i32.const 8))
  (func (export "fd_sync") (param i32) (result i32) (i32.const 8))
  (func (export "fd_filestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_size") (param i32 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_times") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_pread") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_pwrite") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_readdir") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_renumber") (param i32 i32) (result i32) (i32.const 8))

  ;; Functions on paths all answer that they are not permitted (63).
  (func (export "path_open") (param i32 i32) (param $path i32) (param $length i32) (param i32 i64 i64 i32 i32) (result i32)
    (call $no_file (local.get $path) (local.get $length))
    (i32.const 63))
  (func (export "path_filestat_get") (param i32 i32) (param $path i32) (param $length i32) (param i32) (result i32)
    (call $no_file (local.get $path) (local.get $length))
    (i32.const 63))
  (func (export "path_create_directory") (param i32) (param $path i32) (param $length i32) (result i32)
    (call $no_file (local.get $path) (local.get $length))
    (i32.const 63))
  (func (export "path_filestat_set_times") (param i32 i32 i32 i32 i64 i64 i32) (result i32) (i32.const 63))
  (func (export "path_link") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 63))
  (func (export "path_readlink") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 63))
  (func (export "path_remove_directory") (param i32 i32 i32) (result i32) (i32.const 63))
  (func (export "path_rename") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 63))
  (func (export "path_symlink") (param i32 i32 i32 i32 i32) (result i32) (i32.const 63))
  (func (export "path_unlink_file") (param i32 i32 i32) (result i32) (i32.const 63))

  (func (export "sock_accept") (param i32 i32 i32) (result i32) (call $no_socket))
  (func (export "sock_recv") (param i32 i32 i32 i32 i32 i32) (result i32) (call $no_socket))
  (func (export "sock_send") (param i32 i32 i32 i32 i32) (result i32) (call $no_socket))
  (func (export "sock_shutdown") (param i32 i32) (result i32) (call $no_socket))
  (func (export "proc_raise") (param i32) (result i32) (i32.const 52))

  (;TEXTS;))
