//! A process of its own for what a run has no rights for any more once it reads packets: it changes
//! devices, and puts them back however the run ends, and opens interfaces that a reload adds.
//!
//! The run starts this program again and asks it by lines of JSON over a pair of sockets. The
//! helper enters a jail of its own, carries out few orders, each of which it checks, and ends with
//! the run: by its order, or because the other end of the pair is closed. In both cases, and if it
//! is asked anything else, it puts back what was there.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use capture::sys::descriptors;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::lock::Lock;

/// The first argument of a helper; its chore is the second.
pub(crate) const WORD: &str = "helper-of-a-run";

/// This program, also if its file was replaced since.
const OWN: &str = "/proc/self/exe";

/// Bytes of an order and of an answer at most.
const ORDER_LEN_MAX: u64 = 16 << 10;
const ANSWER_LEN_MAX: u64 = 1 << 20;

/// An answer takes milliseconds; one that takes longer than this does not come.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// Between two orders, so that no one keeps the processor busy by them.
const PAUSE: Duration = Duration::from_millis(10);

/// How often it is looked whether a helper has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What was done by an order.
#[derive(Debug, Default)]
pub(crate) struct OrderOutcome {
    /// What the run may want to know.
    pub(crate) said: String,
    /// What was opened for it.
    pub(crate) opened: Option<OwnedFd>,
}

/// What a helper does.
pub(crate) trait Chore: Sized {
    /// Its name among the arguments.
    const NAME: &'static str;
    /// What is known at the start.
    type Task: Serialize + DeserializeOwned;
    /// What is asked later, by a process that reads what strangers send.
    type Order: Serialize + DeserializeOwned;

    /// Opens what it takes and enters its jail; nothing is changed yet.
    fn prepare(task: Self::Task) -> Result<Self, String>;

    /// Changes the device, and says what the run may want to know.
    fn begin(&mut self) -> Result<String, String>;

    /// Carries out an order, once it is checked.
    fn carry_out(&mut self, order: Self::Order) -> Result<OrderOutcome, String>;

    /// Puts back what was there, and says what the run may want to know.
    fn end(&mut self) -> Result<String, String>;
}

#[derive(Serialize, Deserialize)]
enum Message<Order> {
    Do(Order),
    End,
}

/// Why something was not done.
#[derive(Debug)]
pub(crate) enum HelperError {
    /// It does not start.
    Start(io::Error),
    /// It is no longer there: how it ended.
    Lost(String),
    /// In its words.
    Refused(String),
}

impl fmt::Display for HelperError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => write!(f, "the helper process does not start: {error}"),
            Self::Lost(how) => write!(f, "the helper process has ended: {how}"),
            Self::Refused(said) => f.write_str(said),
        }
    }
}

/// A helper as its run sees it. When this is dropped it puts the device back.
#[derive(Debug)]
pub(crate) struct Helper {
    child: Child,
    stream: BufReader<OurEnd>,
}

impl Helper {
    /// Starts one in the network namespace of the calling thread, and has it begin; also what it
    /// says. It holds the lock as well: no other run begins before the device is put back.
    ///
    /// # Errors
    /// [`HelperError`]
    pub(crate) fn start<C: Chore>(
        lock: Option<&Lock>,
        task: &C::Task,
    ) -> Result<(Self, String), HelperError> {
        let starting = || -> io::Result<Self> {
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_read_timeout(Some(ANSWERED_WITHIN))?;
            ours.set_write_timeout(Some(ANSWERED_WITHIN))?;
            let held = lock.map(Lock::shared).transpose()?.map_or_else(Stdio::null, Stdio::from);
            let child = Command::new(OWN)
                .arg0("wirelens")
                .args([WORD, C::NAME])
                .stdin(OwnedFd::from(theirs))
                .stdout(held)
                .stderr(Stdio::null())
                // What is sent to us from a keyboard is not for it.
                .process_group(0)
                .spawn()?;
            let ours = OurEnd { stream: ours, opened: None };
            Ok(Self { child, stream: BufReader::new(ours) })
        };
        let mut helper = starting().map_err(HelperError::Start)?;
        let said = helper.say(task)?;
        Ok((helper, said))
    }

    /// Has an order carried out.
    ///
    /// # Errors
    /// [`HelperError`]
    pub(crate) fn ask<C: Chore>(&mut self, order: C::Order) -> Result<(), HelperError> {
        self.say(&Message::Do(order)).map(drop)
    }

    /// The same of an order by which something is opened.
    ///
    /// # Errors
    /// [`HelperError`]
    pub(crate) fn ask_to_open<C: Chore>(
        &mut self,
        order: C::Order,
    ) -> Result<OrderOutcome, HelperError> {
        let said = self.say(&Message::Do(order))?;
        Ok(OrderOutcome { said, opened: self.stream.get_mut().opened.take() })
    }

    /// Has the device put back; what it says.
    ///
    /// # Errors
    /// [`HelperError`]. What was refused it tries again.
    pub(crate) fn end(mut self) -> Result<String, HelperError> {
        self.say(&Message::End::<()>)
    }

    /// How it ended, if it has.
    pub(crate) fn lost(&mut self) -> Option<String> {
        Some(self.child.try_wait().ok()??.to_string())
    }

    fn say(&mut self, message: &impl Serialize) -> Result<String, HelperError> {
        let mut saying = || -> io::Result<Option<Result<String, String>>> {
            write(&mut self.stream.get_mut().stream, message, None)?;
            read(&mut self.stream, ANSWER_LEN_MAX)
        };
        match saying() {
            Ok(Some(answer)) => answer.map_err(HelperError::Refused),
            // What cannot be asked is no fault of the other end.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                Err(HelperError::Start(error))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // What it may still do would be done behind the back of whoever reads this. In a
                // jail no one may be ended: it ends when it finds our end closed.
                let _ = self.child.kill();
                let (seconds, how) = (ANSWERED_WITHIN.as_secs(), self.wait());
                Err(HelperError::Lost(format!("it did not answer within {seconds} s: {how}")))
            }
            // Its end is closed, or it says what is no answer.
            Ok(None) | Err(_) => Err(HelperError::Lost(self.wait())),
        }
    }

    /// Closes our end, upon which it puts the device back and ends; how it did.
    fn wait(&mut self) -> String {
        let _ = self.stream.get_ref().stream.shutdown(Shutdown::Both);
        for _ in 0..ANSWERED_WITHIN.as_millis() / LOOK_EVERY.as_millis() {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(LOOK_EVERY),
                Ok(Some(status)) => return status.to_string(),
                Err(error) => return error.to_string(),
            }
        }
        String::from("it is still at work")
    }
}

impl Drop for Helper {
    /// The device is put back when the process that it was changed for has ended.
    fn drop(&mut self) {
        self.wait();
    }
}

/// Our end of the pair: answers, and what was opened.
#[derive(Debug)]
struct OurEnd {
    stream: UnixStream,
    /// What came last.
    opened: Option<OwnedFd>,
}

impl Read for OurEnd {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (count, opened) = descriptors::receive(self.stream.as_fd(), into)?;
        self.opened = opened.or(self.opened.take());
        Ok(count)
    }
}

/// Sends a message, a line, and with it what was opened.
fn write(
    stream: &mut UnixStream,
    message: &impl Serialize,
    opened: Option<&OwnedFd>,
) -> io::Result<()> {
    let line = serde_json::to_vec(message);
    let mut line = line.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    line.push(b'\n');
    let sent = match opened {
        Some(opened) => descriptors::send(stream.as_fd(), &line, opened.as_fd())?,
        None => 0,
    };
    stream.write_all(line.get(sent..).unwrap_or_default())
}

/// Takes the next; none if the other end is closed.
fn read<T: DeserializeOwned>(
    stream: &mut BufReader<impl Read>,
    len_max: u64,
) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    stream.take(len_max).read_until(b'\n', &mut line)?;
    match line.split_last() {
        None => Ok(None),
        Some((b'\n', line)) => Ok(Some(serde_json::from_slice(line)?)),
        // Longer than it may be, or cut.
        Some(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Is the helper, at the other end of the pair.
pub(crate) fn serve<C: Chore>(stream: UnixStream) -> ExitCode {
    let mut stream = BufReader::new(stream);
    let Ok(Some(task)) = read::<C::Task>(&mut stream, ORDER_LEN_MAX) else {
        return ExitCode::FAILURE;
    };
    let mut chore = match C::prepare(task) {
        Ok(chore) => chore,
        Err(said) => {
            let _ = write(stream.get_mut(), &Err::<String, _>(said), None);
            return ExitCode::FAILURE;
        }
    };
    // However that ends the device is put back; what has failed before is tried once more.
    if follow(&mut chore, &mut stream).unwrap_or(false) || chore.end().is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Begins, and carries out what is asked; whether the device was put back.
fn follow<C: Chore>(chore: &mut C, stream: &mut BufReader<UnixStream>) -> io::Result<bool> {
    let begun = chore.begin();
    write(stream.get_mut(), &begun, None)?;
    if begun.is_err() {
        return Ok(false);
    }
    while let Some(message) = read::<Message<C::Order>>(stream, ORDER_LEN_MAX)? {
        match message {
            Message::Do(order) => {
                let (done, opened) = match chore.carry_out(order) {
                    Ok(OrderOutcome { said, opened }) => (Ok(said), opened),
                    Err(said) => (Err(said), None),
                };
                write(stream.get_mut(), &done, opened.as_ref())?;
                thread::sleep(PAUSE);
            }
            Message::End => {
                let ended = chore.end();
                let answered = write(stream.get_mut(), &ended, None);
                if ended.is_ok() {
                    // Also if no one is there any more to hear it.
                    return Ok(true);
                }
                answered?;
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::mem;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Writes down what is done.
    struct Noted {
        done: Arc<Mutex<Vec<String>>>,
        refusals: u32,
    }

    thread_local! {
        static DONE: Arc<Mutex<Vec<String>>> = Arc::default();
    }

    impl Noted {
        fn note(&self, what: &str) {
            self.done.lock().unwrap().push(what.to_owned());
        }
    }

    impl Chore for Noted {
        const NAME: &'static str = "noted";
        type Task = u32;
        type Order = u8;

        fn prepare(refusals: u32) -> Result<Self, String> {
            if refusals > 10 {
                return Err(String::from("too many"));
            }
            Ok(Self { done: DONE.with(Arc::clone), refusals })
        }

        fn begin(&mut self) -> Result<String, String> {
            self.note("begin");
            Ok(String::from("begun"))
        }

        fn carry_out(&mut self, order: u8) -> Result<OrderOutcome, String> {
            self.note(&order.to_string());
            // The ninth opens something.
            let opened = (order == 9).then(|| io::pipe().unwrap().0.into());
            let done = OrderOutcome { said: String::new(), opened };
            if order > 9 { Err(String::from("wanted: 0 to 9")) } else { Ok(done) }
        }

        fn end(&mut self) -> Result<String, String> {
            self.note("end");
            if mem::replace(&mut self.refusals, 0) > 0 {
                return Err(String::from("not now"));
            }
            Ok(String::from("ended"))
        }
    }

    /// What a helper does and answers that is handed these lines, after which its run ends.
    fn serving(lines: &str) -> (Vec<String>, Vec<String>) {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(lines.as_bytes()).unwrap();
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        let serving = thread::spawn(|| {
            let _ = serve::<Noted>(theirs);
            DONE.with(|done| mem::take(&mut *done.lock().unwrap()))
        });
        let done = serving.join().unwrap();
        let mut answers = String::new();
        let _ = ours.read_to_string(&mut answers);
        (done, answers.lines().map(str::to_owned).collect())
    }

    #[test]
    fn a_device_is_put_back_once_by_an_order_or_by_the_end_of_the_run() {
        let (done, answers) = serving("0\n{\"Do\":7}\n\"End\"\n");
        assert_eq!(done, ["begin", "7", "end"]);
        assert_eq!(answers, [r#"{"Ok":"begun"}"#, r#"{"Ok":""}"#, r#"{"Ok":"ended"}"#]);
        assert_eq!(serving("0\n{\"Do\":7}\n").0, ["begin", "7", "end"]);
        assert_eq!(serving("0\n").0, ["begin", "end"]);
        // Nothing is changed before the task is known.
        assert!(serving("").0.is_empty() && serving("x\n").0.is_empty());
        let (done, answers) = serving("11\n");
        assert!(done.is_empty() && answers == [r#"{"Err":"too many"}"#]);
    }

    #[test]
    fn what_is_no_order_ends_the_helper_and_puts_the_device_back() {
        let long = format!("0\n{{\"Do\":{}7}}\n{{\"Do\":8}}\n", " ".repeat(20_000));
        for lines in ["0\n{\"Do\":700}\n{\"Do\":8}\n", "0\n\n{\"Do\":8}\n", "0\n{\"Do\":8", &long] {
            assert_eq!(serving(lines).0, ["begin", "end"], "{lines:.20}");
        }
        // An order that is refused is not a reason to end.
        let (done, answers) = serving("0\n{\"Do\":77}\n{\"Do\":8}\n");
        assert_eq!(done, ["begin", "77", "8", "end"]);
        assert_eq!(answers[1], r#"{"Err":"wanted: 0 to 9"}"#);
    }

    #[test]
    fn what_is_opened_comes_with_its_answer() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let serving = thread::spawn(|| serve::<Noted>(theirs));
        let mut ours = BufReader::new(OurEnd { stream: ours, opened: None });
        let mut say = |line: &str| {
            ours.get_mut().stream.write_all(line.as_bytes()).unwrap();
            let answer: Result<String, String> = read(&mut ours, ANSWER_LEN_MAX).unwrap().unwrap();
            (answer.is_ok(), ours.get_mut().opened.take().is_some())
        };
        assert_eq!(say("0\n"), (true, false));
        let lines = ["{\"Do\":8}\n", "{\"Do\":9}\n", "{\"Do\":10}\n", "{\"Do\":9}\n"];
        let answers = lines.map(&mut say);
        assert_eq!(answers, [(true, false), (true, true), (false, false), (true, true)]);
        drop(ours);
        serving.join().unwrap();
    }

    #[test]
    fn what_could_not_be_put_back_is_tried_again() {
        let (done, answers) = serving("1\n\"End\"\n");
        assert_eq!(done, ["begin", "end", "end"]);
        assert_eq!(answers, [r#"{"Ok":"begun"}"#, r#"{"Err":"not now"}"#]);
    }
}
