//! libpcap's filter compiler, opened at run time and only when a filter is given.
//!
//! Building and running need no libpcap. What is used: `pcap_open_dead`,
//! `pcap_fopen_offline`, `pcap_compile`, `pcap_geterr`, `pcap_freecode`, `pcap_close`,
//! `bpf_filter`, and for interfaces `pcap_create`, `pcap_activate`, `pcap_statustostr` and
//! `pcap_datalink`. A compiled program is copied out, so it is plain data that
//! any thread may run.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_uint, c_ushort, c_void};
use std::sync::{Mutex, PoisonError};

use libloading::{Library, Symbol};

/// Names under which the library is looked for, in order.
pub const LIBRARY_NAMES: [&str; 3] = ["libpcap.so.0.8", "libpcap.so.1", "libpcap.so"];

/// One instruction of classic BPF, in the layout that the kernel and libpcap share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// What to do, `BPF_*`.
    pub code: c_ushort,
    /// Instructions to skip where a condition holds.
    pub jump_true: c_uchar,
    /// Instructions to skip where it does not.
    pub jump_false: c_uchar,
    /// What with.
    pub operand: c_uint,
}

#[repr(C)]
struct BpfProgram {
    length: c_uint,
    instructions: *mut Instruction,
}

type OpenFile = unsafe extern "C" fn(*mut libc::FILE, *mut c_char) -> *mut c_void;
type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Create = unsafe extern "C" fn(*const c_char, *mut c_char) -> *mut c_void;
type OfHandle = unsafe extern "C" fn(*mut c_void) -> c_int;
type StatusText = unsafe extern "C" fn(c_int) -> *const c_char;
type Compile =
    unsafe extern "C" fn(*mut c_void, *mut BpfProgram, *const c_char, c_int, c_uint) -> c_int;
type GetError = unsafe extern "C" fn(*mut c_void) -> *mut c_char;
type FreeCode = unsafe extern "C" fn(*mut BpfProgram);
type Close = unsafe extern "C" fn(*mut c_void);
type BpfFilter = unsafe extern "C" fn(*const Instruction, *const c_uchar, c_uint, c_uint) -> c_uint;
type LibVersion = unsafe extern "C" fn() -> *const c_char;

/// The opened library.
pub struct Libpcap {
    open_dead: OpenDead,
    open_file: OpenFile,
    create: Create,
    activate: OfHandle,
    datalink: OfHandle,
    status_text: StatusText,
    compile: Compile,
    get_error: GetError,
    free_code: FreeCode,
    close: Close,
    bpf_filter: BpfFilter,
    version: String,
    /// Held so that the functions above stay mapped.
    _library: Library,
}

/// Libpcap before 1.8 compiles with global state: one compilation at a time.
static COMPILING: Mutex<()> = Mutex::new(());

/// Why a filter cannot be compiled on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveCompileError {
    /// It cannot be listened on with libpcap; another one of its kind may serve.
    Interface(String),
    /// The expression is refused.
    Expression(String),
}

const NO_HANDLE: &str = "libpcap cannot allocate a handle";

/// `PCAP_ERRBUF_SIZE`.
const ERROR_BUFFER_LEN: usize = 256;

/// Bytes of a pcap file's header.
pub const FILE_HEADER_LEN: usize = 24;

/// Netmask for expressions that need none.
const NETMASK_UNKNOWN: c_uint = 0xffff_ffff;

impl Libpcap {
    /// Opens the library under the first name that is found.
    ///
    /// # Errors
    /// The loader's words for the last name tried.
    pub fn open() -> Result<Self, String> {
        let mut refusal = String::new();
        for name in LIBRARY_NAMES {
            // SAFETY: loading libpcap runs its constructors, which have no preconditions.
            match unsafe { Library::new(name) } {
                Ok(library) => return Self::from_library(library).map_err(|e| e.to_string()),
                Err(error) => refusal = error.to_string(),
            }
        }
        Err(refusal)
    }

    fn from_library(library: Library) -> Result<Self, libloading::Error> {
        /// The function under `name`, as the type that pcap(3) gives for it.
        ///
        /// SAFETY: `T` must be that type.
        unsafe fn function<T: Copy>(library: &Library, name: &str) -> Result<T, libloading::Error> {
            // SAFETY: passed on to the caller.
            let symbol: Symbol<'_, T> = unsafe { library.get(name) }?;
            Ok(*symbol)
        }
        // SAFETY: `const char *pcap_lib_version(void)`.
        let lib_version: LibVersion = unsafe { function(&library, "pcap_lib_version") }?;
        // SAFETY: no preconditions.
        let version = unsafe { lib_version() };
        // SAFETY: libpcap returns a static, terminated string.
        let version = unsafe { CStr::from_ptr(version) }.to_string_lossy().into_owned();
        Ok(Self {
            // SAFETY: `pcap_t *pcap_open_dead(int, int)`.
            open_dead: unsafe { function(&library, "pcap_open_dead") }?,
            // SAFETY: `pcap_t *pcap_fopen_offline(FILE *, char *)`.
            open_file: unsafe { function(&library, "pcap_fopen_offline") }?,
            // SAFETY: `pcap_t *pcap_create(const char *, char *)`.
            create: unsafe { function(&library, "pcap_create") }?,
            // SAFETY: `int pcap_activate(pcap_t *)`.
            activate: unsafe { function(&library, "pcap_activate") }?,
            // SAFETY: `int pcap_datalink(pcap_t *)`.
            datalink: unsafe { function(&library, "pcap_datalink") }?,
            // SAFETY: `const char *pcap_statustostr(int)`.
            status_text: unsafe { function(&library, "pcap_statustostr") }?,
            // SAFETY: `int pcap_compile(pcap_t *, struct bpf_program *, const char *, int,
            // bpf_u_int32)`.
            compile: unsafe { function(&library, "pcap_compile") }?,
            // SAFETY: `char *pcap_geterr(pcap_t *)`.
            get_error: unsafe { function(&library, "pcap_geterr") }?,
            // SAFETY: `void pcap_freecode(struct bpf_program *)`.
            free_code: unsafe { function(&library, "pcap_freecode") }?,
            // SAFETY: `void pcap_close(pcap_t *)`.
            close: unsafe { function(&library, "pcap_close") }?,
            // SAFETY: `u_int bpf_filter(const struct bpf_insn *, const u_char *, u_int, u_int)`.
            bpf_filter: unsafe { function(&library, "bpf_filter") }?,
            version,
            _library: library,
        })
    }

    /// The library's own name and version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Compiles `expression` for frames of `data_link_type`, libpcap's `DLT_*`.
    ///
    /// # Errors
    /// Libpcap's words.
    pub fn compile(
        &self,
        expression: &CStr,
        data_link_type: c_int,
        snaplen: c_int,
    ) -> Result<Vec<Instruction>, String> {
        let _one_at_a_time = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: any numbers are allowed; the handle is checked next.
        let handle = unsafe { (self.open_dead)(data_link_type, snaplen) };
        if handle.is_null() {
            return Err(String::from(NO_HANDLE));
        }
        // SAFETY: a valid handle.
        let result = unsafe { self.compile_on(handle, expression) };
        // SAFETY: opened above, closed once.
        unsafe { (self.close)(handle) };
        result
    }

    /// Compiles `expression` for the frames of a capture file that begins with `header`, as
    /// tcpdump does when it reads that file.
    ///
    /// # Errors
    /// Libpcap's words.
    pub fn compile_for_file(
        &self,
        expression: &CStr,
        header: &[u8; FILE_HEADER_LEN],
    ) -> Result<Vec<Instruction>, String> {
        let _one_at_a_time = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = header.as_ptr().cast_mut().cast();
        // SAFETY: that many bytes, which are only read in this mode and outlive the stream.
        let file = unsafe { libc::fmemopen(bytes, header.len(), c"r".as_ptr()) };
        if file.is_null() {
            return Err(String::from(NO_HANDLE));
        }
        let mut words: [c_char; ERROR_BUFFER_LEN] = [0; ERROR_BUFFER_LEN];
        // SAFETY: an open stream, and room for PCAP_ERRBUF_SIZE bytes.
        let handle = unsafe { (self.open_file)(file, words.as_mut_ptr()) };
        if handle.is_null() {
            // SAFETY: the stream is still ours where libpcap gives no handle.
            unsafe { libc::fclose(file) };
            // SAFETY: libpcap has written a terminated string.
            let text = unsafe { CStr::from_ptr(words.as_ptr()) };
            return Err(text.to_string_lossy().into_owned());
        }
        // SAFETY: a valid handle.
        let result = unsafe { self.compile_on(handle, expression) };
        // SAFETY: opened above, closed once, and with it the stream.
        unsafe { (self.close)(handle) };
        result
    }

    /// Compiles `expression` for the kernel, on an interface whose frames are of
    /// `data_link_type`. Libpcap then knows that the kernel takes VLAN tags out of the frame,
    /// and asks for them where it has put them.
    ///
    /// # Errors
    /// Libpcap's words: the interface cannot be listened on, or the expression is refused.
    pub fn compile_live(
        &self,
        expression: &CStr,
        interface: &CStr,
        data_link_type: c_int,
    ) -> Result<Vec<Instruction>, LiveCompileError> {
        let _one_at_a_time = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut words: [c_char; ERROR_BUFFER_LEN] = [0; ERROR_BUFFER_LEN];
        // SAFETY: a terminated name, and room for PCAP_ERRBUF_SIZE bytes.
        let handle = unsafe { (self.create)(interface.as_ptr(), words.as_mut_ptr()) };
        if handle.is_null() {
            return Err(LiveCompileError::Interface(String::from(NO_HANDLE)));
        }
        // SAFETY: a valid handle that is not active.
        let status = unsafe { (self.activate)(handle) };
        // SAFETY: a valid handle; of one that is not active it is a negative number.
        let found = unsafe { (self.datalink)(handle) };
        let result = if status < 0 {
            // SAFETY: any status is allowed.
            let text = unsafe { (self.status_text)(status) };
            // SAFETY: libpcap returns a static, terminated string.
            let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
            Err(LiveCompileError::Interface(text))
        } else if found != data_link_type {
            Err(LiveCompileError::Interface(format!("libpcap reads it as link type {found}")))
        } else {
            // SAFETY: a valid handle.
            unsafe { self.compile_on(handle, expression) }.map_err(LiveCompileError::Expression)
        };
        // SAFETY: created above, closed once.
        unsafe { (self.close)(handle) };
        result
    }

    /// SAFETY: `handle` must be one of this library's, open, and used by no one else.
    unsafe fn compile_on(
        &self,
        handle: *mut c_void,
        expression: &CStr,
    ) -> Result<Vec<Instruction>, String> {
        let mut program = BpfProgram { length: 0, instructions: std::ptr::null_mut() };
        // SAFETY: handle and program are valid, the expression is terminated.
        let status = unsafe {
            (self.compile)(handle, &raw mut program, expression.as_ptr(), 1, NETMASK_UNKNOWN)
        };
        if status != 0 {
            // SAFETY: the handle is valid.
            let message = unsafe { (self.get_error)(handle) };
            // SAFETY: libpcap returns a terminated string inside the handle.
            return Err(unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned());
        }
        // SAFETY: on success libpcap gives `length` instructions.
        let instructions =
            unsafe { std::slice::from_raw_parts(program.instructions, program.length as usize) };
        let copy = instructions.to_vec();
        // SAFETY: compiled by the same library, freed once, not used after.
        unsafe { (self.free_code)(&raw mut program) };
        Ok(copy)
    }

    /// Whether a frame passes a program that [`Libpcap::compile`] made.
    #[inline]
    #[must_use]
    pub fn passes(&self, program: &[Instruction], frame: &[u8], wire_len: u32) -> bool {
        let captured_len = c_uint::try_from(frame.len()).unwrap_or(c_uint::MAX);
        // SAFETY: the program was validated by libpcap's compiler, so it ends
        // and stays within itself; the interpreter checks each load against
        // the captured length it is given.
        let verdict =
            unsafe { (self.bpf_filter)(program.as_ptr(), frame.as_ptr(), wire_len, captured_len) };
        verdict != 0
    }
}

/// `expression` as C wants it.
///
/// # Errors
/// Where a zero byte stands inside it.
pub fn terminated(expression: &str) -> Result<CString, String> {
    CString::new(expression).map_err(|_| String::from("a zero byte in the expression"))
}
