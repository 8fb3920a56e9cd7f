//! Tests the adapter without a plugin's component, in an engine.

use std::error::Error;

use wasmtime::{Caller, Engine, Instance, Linker, Memory, MemoryType, Module, Store, WasmParams, WasmResults};

use crate::world::InterfaceVersion;

type Lines = Vec<(i32, String, Vec<(String, String)>)>;
type Outcome = Result<(), Box<dyn Error>>;

const INFO: i32 = 2;
const WARN: i32 = 3;
const ERROR: i32 = 4;
/// The addresses of a plugin's own data in these tests, and of the memory that the plugin lends to the adapter.
const DATA: u32 = 0;
const LENT: i32 = 8192;
const LENGTH: i32 = 2048;
/// The time of the wall clock, in nanoseconds.
const NOON: i64 = 1_800_000_000_000_000_000;

/// The level of the lines by which these tests note what the adapter reports.
const REPORTED: i32 = 100;
/// The time and the seed that the host gives.
const HOST_TIME: i64 = NOON + 5_000_000;
const HOST_SEED: i64 = 77;

struct Plugin {
    store: Store<Lines>,
    memory: Memory,
    instance: Instance,
}

impl Plugin {
    fn new() -> Result<Self, Box<dyn Error>> {
        Self::of(InterfaceVersion::V0_3_0, false)
    }

    fn of(version: InterfaceVersion, draws: bool) -> Result<Self, Box<dyn Error>> {
        let engine = Engine::default();
        let module = Module::new(&engine, super::core(version, draws)?)?;
        let mut store = Store::new(&engine, Lines::new());
        let memory = Memory::new(&mut store, MemoryType::new(1, None))?;
        let mut linker = Linker::new(&engine);
        linker.define(&store, "env", "memory", memory)?;
        let log = move |mut caller: Caller<'_, Lines>, level: i32, text: u32, length: u32, fields: u32, count: u32| {
            let bytes = memory.data(&caller);
            let text_of = |at: u32, length: u32| String::from_utf8(bytes[at as usize..][..length as usize].to_vec());
            let number = |at: u32| u32::from_le_bytes(bytes[at as usize..][..4].try_into().expect("four"));
            let pair = |at: u32| text_of(number(at), number(at + 4)).expect("UTF-8");
            let fields = (0..count).map(|field| fields + 16 * field).map(|at| (pair(at), pair(at + 8))).collect();
            let line = (level, text_of(text, length).expect("UTF-8"), fields);
            caller.data_mut().push(line);
        };
        linker.func_wrap(&format!("windlass:plugin/log@{version}"), "log", log)?;
        let runtime = "windlass:plugin/runtime@0.3.0";
        linker.func_wrap(runtime, "time", || HOST_TIME)?;
        linker.func_wrap(runtime, "seed", || HOST_SEED)?;
        for what in ["saw-time", "saw-random"] {
            let report = move |mut caller: Caller<'_, Lines>| {
                caller.data_mut().push((REPORTED, what.to_owned(), Vec::new()));
            };
            linker.func_wrap(runtime, what, report)?;
        }
        let instance = linker.instantiate(&mut store, &module)?;
        Ok(Self { store, memory, instance })
    }

    fn call<P: WasmParams, R: WasmResults>(&mut self, name: &str, arguments: P) -> Result<R, Box<dyn Error>> {
        Ok(self.instance.get_typed_func::<P, R>(&mut self.store, name)?.call(&mut self.store, arguments)?)
    }

    fn begin(&mut self, time: i64, seed: i64) -> Outcome {
        self.call("windlass_begin", (time, seed, LENT, LENGTH))
    }

    /// Begins a call for which the adapter fetches the time and the seed. Returns the seed.
    fn enter(&mut self) -> Result<i64, Box<dyn Error>> {
        self.call("windlass_enter", (LENT, LENGTH))
    }

    /// Ends a call, and returns what the adapter reports of it.
    fn end(&mut self) -> Result<Vec<String>, Box<dyn Error>> {
        self.call::<_, ()>("windlass_end", ())?;
        let lines = std::mem::take(self.store.data_mut());
        Ok(lines.into_iter().filter(|(level, ..)| *level == REPORTED).map(|(_, what, _)| what).collect())
    }

    fn line(&mut self, begins: bool) -> Outcome {
        self.call("windlass_line", i32::from(begins))
    }

    fn print(&mut self, fd: i32, text: impl AsRef<[u8]>) -> Outcome {
        let text = text.as_ref();
        self.store_at(DATA, &[u32::to_le_bytes(64), u32::try_from(text.len())?.to_le_bytes()].concat());
        self.store_at(64, text);
        let error: i32 = self.call("fd_write", (fd, 0, 1, 16))?;
        assert_eq!(error, 0);
        assert_eq!(self.number(16), u64::try_from(text.len())?, "all of it is written");
        Ok(())
    }

    fn store_at(&mut self, address: u32, bytes: &[u8]) {
        self.memory.write(&mut self.store, address as usize, bytes).expect("within a page");
    }

    fn number(&mut self, address: usize) -> u64 {
        let mut bytes = [0; 4];
        self.memory.read(&self.store, address, &mut bytes).expect("within a page");
        u32::from_le_bytes(bytes).into()
    }

    fn long(&mut self, address: usize) -> i64 {
        let mut bytes = [0; 8];
        self.memory.read(&self.store, address, &mut bytes).expect("within a page");
        i64::from_le_bytes(bytes)
    }

    fn time(&mut self, clock: i32) -> Result<i64, Box<dyn Error>> {
        let error: i32 = self.call("clock_time_get", (clock, 0_i64, 32))?;
        assert_eq!(error, 0);
        Ok(self.long(32))
    }

    /// Waits for clocks, each given by its number, time and flags. Returns the user data of the clocks that are due.
    fn poll(&mut self, clocks: &[(u32, i64, u16)]) -> Result<Vec<i64>, Box<dyn Error>> {
        for (place, (clock, time, flags)) in clocks.iter().enumerate() {
            let at = 1024 + 48 * u32::try_from(place)?;
            self.store_at(at, &[0; 48]);
            self.store_at(at, &i64::try_from(place)?.to_le_bytes());
            self.store_at(at + 16, &clock.to_le_bytes());
            self.store_at(at + 24, &time.to_le_bytes());
            self.store_at(at + 40, &flags.to_le_bytes());
        }
        let error: i32 = self.call("poll_oneoff", (1024, 4096, i32::try_from(clocks.len())?, 16))?;
        assert_eq!(error, 0);
        Ok((0..usize::try_from(self.number(16))?).map(|place| self.long(4096 + 32 * place)).collect())
    }

    fn random(&mut self) -> Result<i64, Box<dyn Error>> {
        let error: i32 = self.call("random_get", (32, 8))?;
        assert_eq!(error, 0);
        Ok(self.long(32))
    }

    /// The level and text of each log line.
    fn lines(&self) -> Vec<(i32, &str)> {
        self.store.data().iter().map(|(level, message, _)| (*level, message.as_str())).collect()
    }
}

#[test]
fn stdout_is_logged_line_by_line_as_info_and_stderr_as_warnings() -> Outcome {
    let mut plugin = Plugin::new()?;
    plugin.begin(NOON, 1)?;
    plugin.print(1, "one\ntw")?;
    plugin.print(2, "oh")?;
    plugin.print(1, "o\n\nthree")?;
    assert_eq!(plugin.lines(), [(INFO, "one"), (INFO, "two")], "an empty line is none");
    plugin.call::<_, ()>("windlass_end", ())?;
    assert_eq!(plugin.lines(), [(INFO, "one"), (INFO, "two"), (INFO, "three"), (WARN, "oh")]);
    plugin.begin(NOON, 1)?;
    plugin.print(1, "four\n")?;
    assert_eq!(plugin.lines().last(), Some(&(INFO, "four")), "a message is logged only once");
    Ok(())
}

#[test]
fn a_line_longer_than_its_buffer_is_split_between_characters() -> Outcome {
    let mut plugin = Plugin::new()?;
    plugin.begin(NOON, 1)?;
    for text in ["a".repeat(766) + "ü" + &"b".repeat(900), "€".repeat(500), "x\u{1F600}".repeat(300), "c".repeat(768)]
    {
        let before = plugin.store.data().len();
        plugin.print(1, text.clone() + "\n")?;
        let lines: Vec<_> = plugin.lines()[before..].iter().map(|(_, line)| (*line).to_owned()).collect();
        assert_eq!(lines.concat(), text);
        assert!(lines.iter().all(|line| line.len() <= 768), "{lines:?}");
    }
    Ok(())
}

/// Byte sequences, each with its text in which a question mark replaces every byte that is not UTF-8.
const TORN: [(&[u8], &str); 13] = [
    (b"caf\xE9 au lait", "caf? au lait"),
    (b"\xFF", "?"),
    (b"\x80\xBFa", "??a"),
    (b"\xC0\xAF \xC1\x81", "?? ??"),
    (b"\xE0\x80\xAF", "???"),
    (b"\xED\xA0\x80", "???"),
    (b"\xF0\x8F\xBF\xBF", "????"),
    (b"\xF4\x90\x80\x80", "????"),
    (b"\xF5\x80\x80\x80", "????"),
    (b"a\xE2\x82", "a??"),
    (b"\xF0\x9F\x98!", "???!"),
    (b"\xE2\xE2\x82\xAC", "?\u{20AC}"),
    (
        "\u{80}\u{7FF}\u{800}\u{D7FF}\u{E000}\u{FFFF}\u{10000}\u{10FFFF}".as_bytes(),
        "\u{80}\u{7FF}\u{800}\u{D7FF}\u{E000}\u{FFFF}\u{10000}\u{10FFFF}",
    ),
];

#[test]
fn invalid_utf8_is_logged_as_question_marks() -> Outcome {
    let mut plugin = Plugin::new()?;
    plugin.begin(NOON, 1)?;
    for (bytes, text) in TORN {
        plugin.print(1, [bytes, b"\n"].concat())?;
        assert_eq!(plugin.lines().last(), Some(&(INFO, text)), "{bytes:?}");
    }
    plugin.print(2, [0x80_u8; 900])?;
    plugin.call::<_, ()>("windlass_end", ())?;
    let long: String = plugin.lines().iter().filter(|line| line.0 == WARN).map(|line| line.1).collect();
    assert_eq!(long, "?".repeat(900));
    Ok(())
}

#[test]
fn invalid_utf8_splits_a_line_and_stays_in_the_plugins_memory() -> Outcome {
    let mut plugin = Plugin::new()?;
    plugin.print(1, b"caf\xE9 au \xFF\xFFlait\xFF\n")?;
    assert_eq!(plugin.lines(), [(INFO, "caf"), (INFO, " au "), (INFO, "lait")]);
    assert_eq!(plugin.long(64).to_le_bytes(), *b"caf\xE9 au ");
    Ok(())
}

#[test]
fn a_path_with_invalid_utf8_is_shown_with_question_marks() -> Outcome {
    for (bytes, text) in TORN {
        let mut plugin = Plugin::new()?;
        plugin.begin(NOON, 1)?;
        plugin.print(1, "unfinished")?;
        // Test the path as it is, and a longer one that does not fit into its space.
        for path in [bytes.to_vec(), [bytes, &[b'x'; 1000]].concat()] {
            plugin.begin(NOON, 1)?;
            plugin.store_at(64, &path);
            let error: i32 =
                plugin.call("path_open", (3, 0, 64, i32::try_from(path.len())?, 0, 0_i64, 0_i64, 0, 16))?;
            assert_eq!(error, 63, "not permitted");
            let (_, message, fields) = plugin.store.data().last().expect("a line");
            assert!(fields[0].1.starts_with(text) && message.ends_with("cluster"), "{message} {fields:?}");
            let mut after = vec![0; path.len()];
            plugin.memory.read(&plugin.store, 64, &mut after)?;
            assert_eq!(after, path, "it is the plugin's");
        }
        plugin.call::<_, ()>("windlass_end", ())?;
        assert_eq!(plugin.lines().last(), Some(&(INFO, "unfinished")));
    }
    Ok(())
}

#[test]
fn output_before_the_first_call_is_logged_at_once() -> Outcome {
    let mut plugin = Plugin::new()?;
    plugin.print(1, "starting\n")?;
    plugin.print(2, "\n")?;
    assert_eq!(plugin.lines(), [(INFO, "starting")]);
    Ok(())
}

#[test]
fn each_call_starts_at_the_hosts_time_and_its_clock_never_goes_back() -> Outcome {
    let mut plugin = Plugin::new()?;
    plugin.begin(NOON, 1)?;
    let (first, second) = (plugin.time(0)?, plugin.time(0)?);
    assert!(NOON < first && first < second && second < NOON + 1_000_000, "{first} {second}");
    let before = plugin.time(1)?;
    plugin.poll(&[(1, 5_000_000_000, 0)])?;
    plugin.begin(NOON + 1, 1)?;
    assert!(plugin.time(1)? > before, "the monotonic clock goes on");
    let now = plugin.time(0)?;
    assert!(NOON < now && now < NOON + 1_000_000, "{now}: the wall's is the host's again");
    Ok(())
}

#[test]
fn a_sleep_returns_at_once_with_a_later_time() -> Outcome {
    let mut plugin = Plugin::new()?;
    plugin.begin(NOON, 1)?;
    // The wait ends when the first clock is due. Other clocks that are due by then are returned too.
    assert_eq!(plugin.poll(&[(1, 9_000_000, 0), (1, 2_000_000, 0), (1, 2_000_000, 0)])?, [1, 2]);
    let now = plugin.time(0)?;
    assert!(NOON + 2_000_000 < now && now < NOON + 3_000_000, "{now}");
    // Wait for an absolute time of the wall clock, and for one in the past.
    assert_eq!(plugin.poll(&[(0, NOON + 50_000_000, 1)])?, [0]);
    assert!(plugin.time(0)? > NOON + 50_000_000);
    assert_eq!(plugin.poll(&[(0, NOON, 1)])?, [0]);
    assert!(plugin.time(0)? < NOON + 51_000_000);
    assert!(plugin.lines().is_empty(), "a short sleep is not logged");
    Ok(())
}

#[test]
fn a_sleep_of_more_than_a_second_is_logged_once_a_call() -> Outcome {
    let mut plugin = Plugin::new()?;
    for _ in 0..2 {
        plugin.begin(NOON, 1)?;
        for _ in 0..3 {
            plugin.poll(&[(1, 600_000_000, 0)])?;
        }
    }
    let lines = plugin.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].0 == WARN && lines[0].1.contains("slept"), "{lines:?}");
    Ok(())
}

#[test]
fn randomness_follows_from_the_seed() -> Outcome {
    let mut plugin = Plugin::new()?;
    plugin.begin(NOON, 7)?;
    let (first, second) = (plugin.random()?, plugin.random()?);
    plugin.begin(NOON, 8)?;
    let other = plugin.random()?;
    plugin.begin(NOON, 7)?;
    assert_eq!([first, second], [plugin.random()?, plugin.random()?]);
    assert!(first != second && first != other);
    Ok(())
}

#[test]
fn a_call_that_is_entered_has_the_hosts_time_and_seed() -> Outcome {
    let mut plugin = Plugin::new()?;
    assert_eq!(plugin.enter()?, HOST_SEED);
    let (time, random) = (plugin.time(0)?, plugin.random()?);
    assert_eq!(time - HOST_TIME, 1_000, "the clock moves by a microsecond");
    plugin.begin(HOST_TIME, HOST_SEED)?;
    assert_eq!(plugin.random()?, random);
    Ok(())
}

#[test]
fn a_call_reports_whether_the_plugin_got_the_time_or_random_data() -> Outcome {
    let mut plugin = Plugin::new()?;
    // Go reads the clock before the first call, and between two calls.
    for _ in 0..2 {
        plugin.time(0)?;
        plugin.random()?;
        plugin.enter()?;
        plugin.time(1)?;
        assert!(plugin.end()?.is_empty());
    }
    plugin.enter()?;
    plugin.time(0)?;
    assert_eq!(plugin.end()?, ["saw-time"]);
    plugin.enter()?;
    plugin.random()?;
    assert_eq!(plugin.end()?, ["saw-random"]);
    Ok(())
}

#[test]
fn a_wait_until_a_time_of_day_counts_as_reading_it() -> Outcome {
    let mut plugin = Plugin::new()?;
    for (wait, expected) in [((0, HOST_TIME + 5_000, 1), &["saw-time"][..]), ((0, 5_000, 0), &[]), ((1, 5_000, 1), &[])]
    {
        plugin.enter()?;
        plugin.poll(&[wait])?;
        assert_eq!(plugin.end()?, expected, "{wait:?}");
    }
    Ok(())
}

#[test]
fn a_plugin_that_asked_the_host_itself_has_nothing_reported() -> Outcome {
    for version in InterfaceVersion::ALL {
        let mut plugin = Plugin::of(version, true)?;
        plugin.begin(NOON, 1)?;
        plugin.time(0)?;
        plugin.random()?;
        assert!(plugin.end()?.is_empty(), "{version}");
    }
    Ok(())
}

#[test]
fn the_time_of_a_log_line_is_not_the_plugins() -> Outcome {
    let mut plugin = Plugin::new()?;
    plugin.enter()?;
    for _ in 0..2 {
        plugin.line(true)?;
        plugin.time(0)?;
        plugin.line(false)?;
    }
    assert!(plugin.end()?.is_empty());
    // Two readings between the beginning and the end of a line, one before, or one after.
    for lines in [[true, false, true], [false, true, false]] {
        plugin.enter()?;
        for begins in lines {
            plugin.time(0)?;
            plugin.line(begins)?;
            plugin.time(0)?;
        }
        assert_eq!(plugin.end()?, ["saw-time"]);
    }
    Ok(())
}

#[test]
fn random_data_by_gos_own_generator_is_reported_in_each_call() -> Outcome {
    let mut plugin = Plugin::of(InterfaceVersion::V0_3_0, true)?;
    for _ in 0..2 {
        plugin.enter()?;
        assert_eq!(plugin.end()?, ["saw-random"]);
    }
    for (text, draws) in [
        ("runtime.rand math/rand.(*Rand).Int63 internal/sync.(*HashTrieMap[...]).init", false),
        ("xmath/rand.(*runtimeSource).Uint64", true),
        ("math/rand/v2.runtimeSource.Uint64", true),
        ("hash/maphash.MakeSeed", true),
        ("os.nextRandom", true),
        ("runtime.fastrand64", true),
    ] {
        assert_eq!(super::draws(text.as_bytes()), draws, "{text}");
    }
    Ok(())
}

#[test]
fn a_file_is_refused_and_the_log_names_it_once() -> Outcome {
    let mut plugin = Plugin::new()?;
    plugin.begin(NOON, 1)?;
    plugin.store_at(64, b"/etc/passwd");
    for _ in 0..2 {
        let error: i32 = plugin.call("path_open", (3, 0, 64, 11, 0, 0_i64, 0_i64, 0, 16))?;
        assert_eq!(error, 63, "not permitted");
    }
    let [(level, text, fields)] = &plugin.store.data()[..] else { panic!("{:?}", plugin.lines()) };
    assert_eq!((*level, &fields[..]), (WARN, &[("path".to_owned(), "/etc/passwd".to_owned())][..]));
    assert!(text.contains("configuration"), "{text}");
    Ok(())
}

#[test]
fn a_socket_is_refused_and_the_log_names_the_remedy() -> Outcome {
    let mut plugin = Plugin::new()?;
    plugin.begin(NOON, 1)?;
    let error: i32 = plugin.call("sock_send", (4, 0, 0, 0, 16))?;
    assert_eq!(error, 8);
    assert!(matches!(plugin.lines()[..], [(WARN, text)] if text.contains("HTTP client")), "{:?}", plugin.lines());
    Ok(())
}

#[test]
fn an_exit_traps_with_the_printed_text() -> Outcome {
    let mut plugin = Plugin::new()?;
    plugin.begin(NOON, 1)?;
    plugin.print(2, "panic: no such thing")?;
    assert!(plugin.call::<_, ()>("proc_exit", 2).is_err());
    let lines = plugin.lines();
    assert!(
        matches!(lines[..], [(WARN, "panic: no such thing"), (ERROR, text)] if text.contains("returns an error")),
        "{lines:?}"
    );
    Ok(())
}

#[test]
fn there_is_one_argument_and_no_environment() -> Outcome {
    let mut plugin = Plugin::new()?;
    let error: i32 = plugin.call("args_sizes_get", (16, 32))?;
    assert_eq!((error, plugin.number(16), plugin.number(32)), (0, 1, 7));
    plugin.store_at(64, &[0xFF; 16]);
    let error: i32 = plugin.call("args_get", (16, 64))?;
    assert_eq!((error, plugin.number(16)), (0, 64));
    assert_eq!(plugin.long(64).to_le_bytes(), *b"plugin\0\xFF", "no more than that is written");
    let error: i32 = plugin.call("environ_sizes_get", (16, 32))?;
    assert_eq!((error, plugin.number(16), plugin.number(32)), (0, 0, 0));
    Ok(())
}

#[test]
fn every_text_fits_its_place() {
    for (name, text) in super::TEXTS {
        assert!(text.len() <= 440, "{name}: {} bytes", text.len());
    }
}
