//! CUDA graphs: one training step recorded once and then started as a whole.
//!
//! Steps of small networks are hundreds of operations of a few microseconds each; given one by one
//! they leave the GPU waiting. A recorded step reads and writes the same memory every time, so what
//! changes from step to step (random numbers) is copied into place before it starts.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use anyhow::{Context as _, Result, bail};

/// The library built from `graph.cpp`; empty where libtorch has no CUDA headers.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/graph.so"));

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
    fn memfd_create(name: *const c_char, flags: u32) -> c_int;
    fn free(memory: *mut c_void);
}

/// Resolve symbols now, and let later libraries see them.
const NOW_AND_GLOBAL: c_int = 0x102;

/// Loads a library into the program for good.
pub fn load(name: &str) -> Result<*mut c_void> {
    let c_name = CString::new(name)?;
    // SAFETY: the name is a valid C string; loading runs the library's own start-up code only.
    let handle = unsafe { dlopen(c_name.as_ptr(), NOW_AND_GLOBAL) };
    if handle.is_null() {
        // SAFETY: after a failure `dlerror` returns a C string that lives until the next call.
        let reason = unsafe { CStr::from_ptr(dlerror()) };
        bail!(
            "library `{name}` cannot be loaded: {}",
            reason.to_string_lossy()
        );
    }
    Ok(handle)
}

type Plain = unsafe extern "C" fn() -> *mut c_char;
type Switch = unsafe extern "C" fn(c_int) -> *mut c_char;
type Begin = unsafe extern "C" fn(*mut *mut c_void) -> *mut c_char;
type OnGraph = unsafe extern "C" fn(*mut c_void) -> *mut c_char;
type Delete = unsafe extern "C" fn(*mut c_void);

/// The functions of `graph.cpp`.
#[derive(Clone, Copy)]
pub struct Graphs {
    allow_tf32: Switch,
    begin: Begin,
    end: OnGraph,
    replay: OnGraph,
    delete: Delete,
}

impl Graphs {
    /// Loads the library and gives this thread a stream of its own; `None` where it was not built.
    ///
    /// libtorch's CUDA part must be loaded already.
    pub fn load() -> Result<Option<Self>> {
        if LIBRARY.is_empty() {
            return Ok(None);
        }
        let name = CString::new("s2m-graph").expect("no zero byte");
        // SAFETY: the name is a valid C string; the call makes a file that lies in memory.
        let file = unsafe { memfd_create(name.as_ptr(), 0) };
        let path = format!("/proc/self/fd/{file}");
        std::fs::write(&path, LIBRARY).context("the graph library cannot be put into memory")?;
        let handle = load(&path)?;
        let symbol = |name: &str| -> Result<*mut c_void> {
            let c_name = CString::new(name)?;
            // SAFETY: the handle is of a loaded library and the name a valid C string.
            let symbol = unsafe { dlsym(handle, c_name.as_ptr()) };
            if symbol.is_null() {
                bail!("the graph library has no `{name}`");
            }
            Ok(symbol)
        };
        // SAFETY: the types are those of the functions in `graph.cpp`, built into this program.
        let (graphs, own_stream) = unsafe {
            (
                Self {
                    allow_tf32: std::mem::transmute::<*mut c_void, Switch>(symbol(
                        "s2m_allow_tf32",
                    )?),
                    begin: std::mem::transmute::<*mut c_void, Begin>(symbol("s2m_graph_begin")?),
                    end: std::mem::transmute::<*mut c_void, OnGraph>(symbol("s2m_graph_end")?),
                    replay: std::mem::transmute::<*mut c_void, OnGraph>(symbol(
                        "s2m_graph_replay",
                    )?),
                    delete: std::mem::transmute::<*mut c_void, Delete>(symbol("s2m_graph_delete")?),
                },
                std::mem::transmute::<*mut c_void, Plain>(symbol("s2m_own_stream")?),
            )
        };
        // SAFETY: as above.
        told(unsafe { own_stream() })?;
        Ok(Some(graphs))
    }

    /// Whether products and convolutions may round their factors to TF32.
    pub fn allow_tf32(self, allow: bool) -> Result<()> {
        // SAFETY: the type is that of the function in `graph.cpp`.
        told(unsafe { (self.allow_tf32)(c_int::from(allow)) })
    }

    /// Records the work, which is not carried out; what it returns is filled by every replay.
    pub fn record<T>(self, work: impl FnOnce() -> T) -> Result<(Graph, T)> {
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` receives the new graph; the work in between uses this thread's stream.
        told(unsafe { (self.begin)(&raw mut raw) })?;
        let mut graph = Graph {
            raw,
            graphs: self,
            recording: true,
        };
        let result = work();
        graph.end()?;
        Ok((graph, result))
    }
}

/// A recorded piece of work.
pub struct Graph {
    raw: *mut c_void,
    graphs: Graphs,
    recording: bool,
}

impl Graph {
    fn end(&mut self) -> Result<()> {
        self.recording = false;
        // SAFETY: the graph was begun and is ended once.
        told(unsafe { (self.graphs.end)(self.raw) })
    }

    /// Carries the work out once, in this thread's stream.
    pub fn replay(&self) -> Result<()> {
        // SAFETY: the graph is recorded and not yet deleted.
        told(unsafe { (self.graphs.replay)(self.raw) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.recording {
            // The work panicked; what it recorded is of no use, and neither is a second error.
            let _ = self.end();
        }
        // SAFETY: the graph is deleted once.
        unsafe { (self.graphs.delete)(self.raw) };
    }
}

/// An error text from the library as an error.
fn told(message: *mut c_char) -> Result<()> {
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: the library returns a C string that the caller releases.
    let text = unsafe { CStr::from_ptr(message) }
        .to_string_lossy()
        .into_owned();
    // SAFETY: as above; it was made by `strdup`.
    unsafe { free(message.cast()) };
    bail!("CUDA graph: {}", text.lines().next().unwrap_or_default())
}
