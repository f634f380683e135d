//! The library, loaded once.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use ort::LoadDynamicError;
use ort::environment::Environment;

use super::OnnxError;
use super::reason::one_line;

/// ONNX Runtime allows one environment a process, for as long as that lives.
static LOADED: OnceLock<(PathBuf, Environment)> = OnceLock::new();
static LOADING: Mutex<()> = Mutex::new(());

/// ONNX Runtime, loaded. A process has one; copies of this are it.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    environment: &'static Environment,
}

impl Library {
    /// Loads the shared library at `path`, or gives the one that was loaded from there before.
    ///
    /// Its code runs from here on: a caller takes the path from the user that started the process,
    /// never from a model.
    ///
    /// # Errors
    /// [`OnnxError::Library`] where there is no such library or it is older than 1.17,
    /// [`OnnxError::OtherLibrary`] where another one is loaded.
    pub fn load(path: &Path) -> Result<Self, OnnxError> {
        // One at a time: two first loads would both make an environment.
        let _turn = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((loaded, environment)) = LOADED.get() {
            return if loaded == path {
                Ok(Self { environment })
            } else {
                let (path, loaded) = (path.to_owned(), loaded.clone());
                Err(OnnxError::OtherLibrary { path, loaded })
            };
        }
        let refused = |cause: &dyn std::fmt::Display| OnnxError::Library {
            path: path.to_owned(),
            cause: one_line(cause),
        };
        // A name without a folder would be looked for beside the program first.
        if !path.is_absolute() {
            return Err(refused(&"no absolute path"));
        }
        let builder = ort::init_from(path).map_err(|error| refused(&told(path, &error)))?;
        let environment = builder
            .with_name("wirelens")
            .with_telemetry(false)
            .build()
            .map_err(|error| refused(&error))?;
        let (_, environment) = LOADED.get_or_init(|| (path.to_owned(), environment));
        Ok(Self { environment })
    }

    pub(super) const fn environment(self) -> &'static Environment {
        self.environment
    }
}

/// What the loader says, without the path, which the message begins with.
fn told(path: &Path, error: &LoadDynamicError) -> String {
    match error {
        LoadDynamicError::Dlopen { error, .. } => {
            let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            let prefix = format!("{}: ", path.display());
            text.strip_prefix(&prefix).map(str::to_owned).unwrap_or(text)
        }
        LoadDynamicError::MissingApi { .. } | LoadDynamicError::InvalidVersionString => {
            String::from("this is not ONNX Runtime")
        }
        LoadDynamicError::BadVersion { version_str, .. } => {
            format!("this is ONNX Runtime {version_str}")
        }
    }
}
