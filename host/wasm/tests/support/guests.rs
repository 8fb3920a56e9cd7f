//! Guests: some are built by `make plugins`, others are made here from a few lines of core WebAssembly.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The text before the mode in a guest that is patched, and the length of the mode in bytes.
const CHAMELEON: (&[u8], usize) = (b"CHAMELEON-MODE=", 32);
const HOSTILE: (&[u8], usize) = (b"HOSTILE-MODE=", 32);

/// The plugin of the examples.
pub(crate) fn webapp() -> Vec<u8> {
    read("WINDLASS_PLUGIN_DIR", "plugins", "webapp.wasm")
}

/// The composer whose behaviour its parent object determines.
pub(crate) fn composer() -> Vec<u8> {
    read("WINDLASS_GUEST_DIR", "guests", "composer.wasm")
}

/// The guest `chameleon`, in `mode`.
pub(crate) fn chameleon(mode: &str) -> Vec<u8> {
    patched("chameleon.wasm", CHAMELEON, mode)
}

/// The guest that attacks its host as `mode` says, which is also its name.
pub(crate) fn hostile(mode: &str) -> Vec<u8> {
    patched("hostile.wasm", HOSTILE, mode)
}

/// The plugin `name` of a stock toolchain.
pub(crate) fn stock(name: &str) -> Vec<u8> {
    read("WINDLASS_STOCK_DIR", "stock", &format!("{name}.wasm"))
}

fn patched(file: &str, (marker, room): (&[u8], usize), mode: &str) -> Vec<u8> {
    let mut bytes = read("WINDLASS_GUEST_DIR", "guests", file);
    let at = bytes.windows(marker.len()).position(|window| window == marker).expect("the guest has its marker");
    assert!(mode.len() <= room, "{mode} is longer than {room} bytes");
    let room = &mut bytes[at + marker.len()..at + marker.len() + room];
    room.fill(b'.');
    room[..mode.len()].copy_from_slice(mode.as_bytes());
    bytes
}

fn read(variable: &str, directory: &str, file: &str) -> Vec<u8> {
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target").join(directory);
    let path = std::env::var_os(variable).map_or_else(default, PathBuf::from).join(file);
    std::fs::read(&path).unwrap_or_else(|error| {
        panic!("cannot read the guest {} ({error}): run `make plugins stock`, or set {variable}", path.display())
    })
}

/// The smallest manifest, of a plugin named `guest`.
pub(crate) const MANIFEST: &str = r#"{"apiVersion":"windlass.dev/v1alpha1","kind":"PluginManifest","name":"guest","version":"0.1.0","controllers":[{"name":"guest","primary":{"apiVersion":"v1","kind":"ConfigMap"}}]}"#;

/// A guest written directly in the canonical ABI. Strings for its calls start at 2048; the answer `done` is at 512.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    /// The answer of `describe`.
    pub(crate) manifest: String,
    /// Core imports.
    pub(crate) imports: String,
    /// Tables, globals, further functions.
    pub(crate) items: String,
    /// Instructions that `describe` runs before it returns.
    pub(crate) describe: String,
    /// Instructions that `reconcile` runs before it returns.
    pub(crate) reconcile: String,
    /// Instructions that `cabi_realloc` runs before it allocates.
    pub(crate) realloc: String,
    /// Initial memory in pages.
    pub(crate) pages: u32,
    /// The folder with the interface in the guest's version.
    pub(crate) wit: &'static str,
    /// The world in it.
    pub(crate) world: &'static str,
}

impl Default for Core {
    fn default() -> Self {
        Self {
            manifest: MANIFEST.to_owned(),
            imports: String::new(),
            items: String::new(),
            describe: String::new(),
            reconcile: String::new(),
            realloc: String::new(),
            pages: 2,
            wit: "wit",
            world: "reconciler-plugin",
        }
    }
}

/// The import that [`CLAIM`] calls.
pub(crate) const CLAIM_IMPORT: &str =
    r#"(import "windlass:plugin/owners@0.3.0" "claim" (func $claim (param i32 i32 i32 i32 i32 i32 i32)))"#;

/// Claims objects: a host call that the test's port may keep waiting.
pub(crate) const CLAIM: &str =
    "(call $claim (i32.const 2048) (i32.const 2) (i32.const 2050) (i32.const 9) (i32.const 0)
    (i32.const 0) (i32.const 1024))";

/// A world with the part of WASI that the host supports, in the version `version` of WASI.
pub(crate) fn wasi(version: &str) -> String {
    let given = include_str!("wasi.wit").replace("0.2.12", version);
    let world = "package test:guest;\nworld wasi {\n  include windlass:plugin/reconciler-plugin@0.3.0;\n  include windlass:wasi/given;\n}\n";
    let given = given.replace("package windlass:wasi;\n", "package windlass:wasi {\n").replacen(
        "\npackage wasi:cli",
        "}\n\npackage wasi:cli",
        1,
    );
    format!("{world}{given}")
}

/// As [`wasi`], with `wasi:http` too.
pub(crate) fn wasi_http(version: &str) -> String {
    let http = include_str!("wasi_http.wit").replace("0.2.12", version);
    let imports = format!(
        "  include windlass:wasi/given;\n  import wasi:http/types@{version};\n  import wasi:http/outgoing-handler@{version};\n"
    );
    wasi(version).replacen("  include windlass:wasi/given;\n", &imports, 1) + &http
}

/// Core functions that send requests by `wasi:http`, for guests with [`wasi_http`].
///
/// `$to` makes a request `GET https://host.example/PATH`, `$send` sends it, `$wait` waits for its response. `$seen` is
/// 0 without a response, otherwise a status, 1000 plus the case of an error code, or 2000 if the response was taken
/// already. `$opened` is a stream to a request's body. `$read` counts the bytes of a response's body. `$say` is the
/// result of `reconcile`.
pub(crate) const HTTP_CLIENT: (&str, &str) = (include_str!("http_imports.wat"), include_str!("http_client.wat"));

impl Core {
    /// The guest in the `world` of the interface 0.2.0.
    pub(crate) fn of_0_2_0(self, world: &'static str) -> Self {
        Self { wit: "host/wasm/wit/v0_2_0", world, ..self }
    }

    /// A guest that calls `wasi:http` in `reconcile`, and has `items` beside [`HTTP_CLIENT`].
    pub(crate) fn calling_http(items: &str, reconcile: &str) -> Self {
        Self {
            imports: HTTP_CLIENT.0.replace("VERSION", "0.2.12"),
            items: format!("{}{items}", HTTP_CLIENT.1),
            reconcile: reconcile.to_owned(),
            // Memory for bodies, and for lists of handles.
            pages: 40,
            ..Self::default()
        }
    }

    /// A guest that calls WASI of `version` directly in `reconcile`: `imports` are core functions of version `VERSION`.
    pub(crate) fn calling_wasi(version: &str, imports: &str, reconcile: &str) -> Vec<u8> {
        let imports = imports.replace("VERSION", version);
        Self { imports, reconcile: reconcile.to_owned(), ..Self::default() }.with_wasi(&wasi(version))
    }

    /// A guest that runs `reconcile`, with `imports`.
    pub(crate) fn reconciling(imports: &str, reconcile: &str) -> Vec<u8> {
        Self { imports: imports.to_owned(), reconcile: reconcile.to_owned(), ..Self::default() }.component()
    }

    /// The component.
    pub(crate) fn component(&self) -> Vec<u8> {
        self.encoded("", &[])
    }

    /// The component, with `adapter` in place of the imports of `name`.
    pub(crate) fn adapted_by(&self, (name, adapter): (&str, &[u8])) -> Vec<u8> {
        self.encoded("", &[(name, adapter)])
    }

    /// The component, with the WIT text `wasi`: a world `test:guest/wasi`, and its packages.
    pub(crate) fn with_wasi(&self, wasi: &str) -> Vec<u8> {
        self.encoded(wasi, &[])
    }

    /// A composer that runs in `compose` what the guest would run in `reconcile`, with the `wasi` of a reconciler.
    pub(crate) fn composing(&self, wasi: &str) -> Vec<u8> {
        self.encoded(&wasi.replace("reconciler-plugin", "composer-plugin"), &[])
    }

    fn encoded(&self, wasi: &str, adapters: &[(&str, &[u8])]) -> Vec<u8> {
        let mut text = self.text();
        if self.wit != "wit" {
            text = text.replace("@0.3.0", "@0.2.0");
        }
        if wasi.contains("composer-plugin") || self.world.contains("composer-plugin") {
            text = text.replace("#reconcile", "#compose");
            text = text.replace("windlass:plugin/reconciler@", "windlass:plugin/composer@");
        }
        let mut module = wat::parse_str(text).expect("the guest's text is well-formed");
        let mut resolve = Resolve::default();
        // The folder is searched upwards, because a benchmark of another crate makes guests too.
        let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|directory| directory.join(self.wit));
        let wit = above.find(|wit| wit.join("world.wit").is_file()).expect("the interface is in the project");
        let (mut package, _) = resolve.push_dir(&wit).expect("wit/ is well-formed");
        let mut world = self.world;
        if !wasi.is_empty() {
            package = resolve.push_str("wasi.wit", wasi).expect("the text is well-formed");
            world = "wasi";
        }
        let world = resolve.select_world(&[package], Some(world)).expect("the world is there");
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("the world is embedded");
        let mut encoder = ComponentEncoder::default().module(&module).expect("the module fits the world");
        for (name, adapter) in adapters {
            encoder = encoder.adapter(name, adapter).expect("the adapter fits");
        }
        encoder.validate(false).encode().expect("the component is encoded")
    }

    fn text(&self) -> String {
        let Self { imports, items, describe, reconcile, realloc, pages, .. } = self;
        let length = u32::try_from(self.manifest.len()).expect("a manifest of less than 4 GiB");
        let manifest = escaped(self.manifest.as_bytes());
        let at = 4096_u32;
        let describe_answer = escaped(&[at.to_le_bytes(), length.to_le_bytes()].concat());
        format!(
            r#"(module
              {imports}
              (memory (export "memory") {pages})
              (global $heap (mut i32) (i32.const 65536))
              (data (i32.const 16) "{describe_answer}")
              (data (i32.const 2048) "v1ConfigMap../../secrets/x")
              (data (i32.const {at}) "{manifest}")
              {items}
              (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (local $at i32)
                {realloc}
                (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
                (global.set $heap (i32.add (local.get $at) (local.get 3)))
                (local.get $at))
              (func (export "windlass:plugin/reconciler@0.3.0#describe") (result i32)
                {describe}
                (i32.const 16))
              (func (export "windlass:plugin/reconciler@0.3.0#reconcile") (param i32) (result i32)
                {reconcile}
                (i32.const 512)))"#
        )
    }
}

/// `bytes` as a string of WebAssembly's text format.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "\\{byte:02x}").expect("writing to a String cannot fail");
    }
    text
}
