//! The loop that watches a running sandbox: its end, its blocked calls, the caller's signals, the clock and
//! the terminal. One thread, one poll.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use lazaret_audit::AuditError;
use lazaret_sandbox::linux::{
    launch::{Departure, FromInit, Sandbox, Target},
    sys,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use crate::{
    learn::Observer,
    meter::{Consequence, Meter},
    processes::Process,
    record::{Fate, Record},
    report::Ending,
    steer::{Stage, Steering, Wish},
    terminal::Relay,
    trace,
    watch::{After, Watch},
};

/// How long a command may take to end after SIGTERM.
pub const GRACE: Duration = Duration::from_secs(2);
/// A command that runs longer is worth making room for.
const REST: Duration = Duration::from_millis(150);
/// Signals to us that are meant for the command.
pub const FORWARDED: [i32; 9] = [
    1,  // SIGHUP
    2,  // SIGINT
    3,  // SIGQUIT
    10, // SIGUSR1
    12, // SIGUSR2
    15, // SIGTERM
    18, // SIGCONT
    20, // SIGTSTP
    28, // SIGWINCH
];
const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;
const SIGTSTP: i32 = 20;
const SIGWINCH: i32 = 28;
const SIGSYS: i32 = 31;

/// How it came to an end.
#[derive(Debug, Default)]
pub struct Supervised {
    /// How the command ended, when it ended by itself or by a signal.
    pub departure: Option<Departure>,
    /// The errno of a command that could not be executed.
    pub not_executed: Option<i32>,
    /// Set when we ended it.
    pub ended: Option<(Ending, String)>,
    /// Who was there when an escape was tried.
    pub processes: Vec<Process>,
}

#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    #[error("cannot watch the sandbox: {0}")]
    Poll(#[source] io::Error),
    #[error(transparent)]
    Audit(#[from] AuditError),
}

impl Supervised {
    /// The command's wait status.
    pub fn status(&self) -> Option<i32> {
        self.departure.map(|departure| departure.status)
    }
}

/// What the loop waits for, in the order of the poll set.
struct Loop<'a> {
    sandbox: &'a Sandbox,
    signals: Option<BorrowedFd<'a>>,
    /// The wishes of other threads.
    steering: Option<&'a Steering>,
    until: Until,
    relay: Option<Relay>,
    launch_open: bool,
    control_open: bool,
    listener_open: bool,
    deadline: Option<Instant>,
    limit: Option<Duration>,
    /// When what was asked to end is made to.
    patience: Option<Instant>,
    meter: &'a mut Meter,
    /// When to make this process small, if it is one that only supervises.
    rest: Option<Instant>,
    outcome: Supervised,
}

/// When the watch is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Everything inside has ended.
    InitIsGone,
    /// The command has; init waits for the next one.
    CommandHasEnded,
}

/// Watches until everything inside is gone.
#[expect(clippy::too_many_arguments, reason = "the parts of a running sandbox, told apart by type")]
pub fn supervise(
    sandbox: &Sandbox,
    watch: &mut Watch<'_>,
    record: &mut Record<'_>,
    meter: &mut Meter,
    until: Until,
    signals: Option<BorrowedFd<'_>>,
    steering: Option<&Steering>,
    limit: Option<Duration>,
    relay: Option<Relay>,
) -> Result<Supervised, SuperviseError> {
    let mut state = Loop {
        sandbox,
        signals,
        steering,
        until,
        relay,
        launch_open: true,
        control_open: true,
        listener_open: sandbox.listener().is_some(),
        deadline: limit.map(|limit| Instant::now() + limit),
        limit,
        patience: None,
        meter,
        rest: (until == Until::InitIsGone).then(|| Instant::now() + REST),
        outcome: Supervised::default(),
    };
    let result = state.run(watch, record);
    if result.is_err() {
        sandbox.kill();
    }
    if let (Some(relay), Some(master)) = (&mut state.relay, sandbox.terminal()) {
        relay.drain(master);
    }
    result.map(|()| state.outcome)
}

impl Loop<'_> {
    fn run(&mut self, watch: &mut Watch<'_>, record: &mut Record<'_>) -> Result<(), SuperviseError> {
        loop {
            let ready = self.wait(watch).map_err(SuperviseError::Poll)?;
            if ready.signals {
                self.forward_signals(record)?;
            }
            if ready.launch {
                self.outcome.not_executed = self.sandbox.execution_failed().map_err(SuperviseError::Poll)?;
                self.launch_open = false;
                if let Some(steering) = self.steering.filter(|_| self.outcome.not_executed.is_none()) {
                    steering.reach(Stage::Running);
                }
            }
            if ready.control && matches!(self.hear_init(watch, record)?, Heard::Gone) {
                self.control_open = false;
            }
            if ready.no_callers {
                self.listener_open = false;
            } else if ready.listener {
                self.judge(watch, record)?;
            }
            if ready.carrier {
                let news = watch.network.hear(self.sandbox, record)?;
                let after = watch.news(self.sandbox, news, record)?;
                self.follow(after);
            }
            if ready.strays {
                let news = watch.network.hear_strays(self.sandbox);
                let after = watch.news(self.sandbox, news, record)?;
                self.follow(after);
            }
            self.relay_bytes(&ready);
            if ready.steering {
                self.obey(watch, record)?;
            }
            if self.rest.is_some_and(|rest| Instant::now() >= rest) {
                sys::give_back_code();
                self.rest = None;
            }
            self.check_clock();
            self.check_limits(record)?;
            if let Some(observer) = &mut watch.observer {
                observer.look(self.sandbox);
            }
            if self.until == Until::CommandHasEnded && self.outcome.departure.is_some() {
                return self.hear_last_strays(watch, record);
            }
            if ready.process {
                // What init said last may still be in the line.
                while is_readable(self.sandbox.control()) {
                    if matches!(self.hear_init(watch, record)?, Heard::Gone) {
                        break;
                    }
                }
                return self.hear_last_strays(watch, record);
            }
        }
    }

    /// Does what another thread wants. What was there to see when it asked has been seen in this round, but for
    /// what the carrying thread told in great number.
    fn obey(&mut self, watch: &mut Watch<'_>, record: &mut Record<'_>) -> Result<(), SuperviseError> {
        const ROUNDS: usize = 100;
        let Some(steering) = self.steering else { return Ok(()) };
        let wishes = steering.take();
        for _ in 0..ROUNDS {
            if !watch.network.readable().is_some_and(is_readable) {
                break;
            }
            let news = watch.network.hear(self.sandbox, record)?;
            let after = watch.news(self.sandbox, news, record)?;
            self.follow(after);
        }
        let news = watch.network.hear_strays(self.sandbox);
        let after = watch.news(self.sandbox, news, record)?;
        self.follow(after);
        steering.settled(wishes);
        match wishes.end {
            Some(Wish::Kill) => self.sandbox.kill(),
            Some(Wish::Terminate(grace)) => {
                let _ = self.sandbox.signal(SIGTERM, Target::Group);
                let end = Instant::now() + grace;
                self.patience = Some(self.patience.map_or(end, |known| known.min(end)));
            }
            None => {}
        }
        Ok(())
    }

    /// What the command sent just before its end.
    fn hear_last_strays(
        &mut self,
        watch: &mut Watch<'_>,
        record: &mut Record<'_>,
    ) -> Result<(), SuperviseError> {
        let news = watch.network.hear_strays(self.sandbox);
        watch.news(self.sandbox, news, record)?;
        Ok(())
    }

    fn wait(&mut self, watch: &Watch<'_>) -> io::Result<Ready> {
        let network = &watch.network;
        let look = watch.observer.as_ref().map(Observer::due);
        let moments = [self.deadline, self.patience, self.meter.due(), self.rest, network.due(), look];
        let moment = moments.into_iter().flatten().min();
        let never = PollFlags::empty();
        let when = |condition: bool, flags: PollFlags| if condition { flags } else { never };
        let process = self.sandbox.process();
        let terminal = self.sandbox.terminal().filter(|_| self.relay.is_some());
        let relay = self.relay.as_ref();
        let master_flags = when(relay.is_some_and(|relay| relay.output_open), PollFlags::IN)
            | when(relay.is_some_and(Relay::wants_to_write), PollFlags::OUT);
        // What is not waited for stands in as the process's descriptor with no flags.
        // (A hang-up is always reported, so a line that is finished with must not be in the set at all.)
        let listener = self.sandbox.listener().filter(|_| self.listener_open).map_or(process, AsFd::as_fd);
        let launch = if self.launch_open { self.sandbox.launch_line() } else { process };
        let control = if self.control_open { self.sandbox.control() } else { process };
        let terminal = terminal.filter(|_| master_flags != never);
        let [tap_v4, tap_v6] = network.taps(self.sandbox);
        let carrier = network.readable();
        let steering = self.steering.map(Steering::readable);
        let mut fds = [
            PollFd::from_borrowed_fd(process, PollFlags::IN),
            PollFd::from_borrowed_fd(control, when(self.control_open, PollFlags::IN)),
            PollFd::from_borrowed_fd(
                self.signals.unwrap_or(process),
                when(self.signals.is_some(), PollFlags::IN),
            ),
            PollFd::from_borrowed_fd(launch, when(self.launch_open, PollFlags::IN)),
            PollFd::from_borrowed_fd(listener, when(self.listener_open, PollFlags::IN)),
            PollFd::from_borrowed_fd(terminal.unwrap_or(process), when(terminal.is_some(), master_flags)),
            PollFd::from_borrowed_fd(
                if relay.is_some_and(|relay| relay.input_open) { rustix::stdio::stdin() } else { process },
                when(relay.is_some_and(|relay| relay.input_open && !relay.wants_to_write()), PollFlags::IN),
            ),
            PollFd::from_borrowed_fd(carrier.unwrap_or(process), when(carrier.is_some(), PollFlags::IN)),
            PollFd::from_borrowed_fd(tap_v4.unwrap_or(process), when(tap_v4.is_some(), PollFlags::IN)),
            PollFd::from_borrowed_fd(tap_v6.unwrap_or(process), when(tap_v6.is_some(), PollFlags::IN)),
            PollFd::from_borrowed_fd(steering.unwrap_or(process), when(steering.is_some(), PollFlags::IN)),
        ];
        let timeout = moment.map(|moment| {
            let left = moment.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        match poll(&mut fds[..], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [process, control, signals, launch, listener, master, input, heard, v4, v6, steered] =
            fds.map(|fd| fd.revents());
        let some = |flags: PollFlags| !flags.is_empty();
        Ok(Ready {
            process: some(process),
            control: self.control_open && some(control),
            signals: self.signals.is_some() && some(signals),
            launch: self.launch_open && some(launch),
            listener: self.listener_open && some(listener),
            // Hung up alone: nobody is left who could call.
            no_callers: self.listener_open && some(listener) && !listener.contains(PollFlags::IN),
            master_in: terminal.is_some() && some(master & (PollFlags::IN | PollFlags::HUP | PollFlags::ERR)),
            master_out: master.contains(PollFlags::OUT),
            input: relay.is_some_and(|relay| relay.input_open) && some(input),
            carrier: carrier.is_some() && some(heard),
            strays: (tap_v4.is_some() && some(v4)) || (tap_v6.is_some() && some(v6)),
            steering: steering.is_some() && some(steered),
        })
    }

    fn hear_init(&mut self, watch: &mut Watch<'_>, record: &mut Record<'_>) -> Result<Heard, SuperviseError> {
        match self.sandbox.hear_init().map_err(SuperviseError::Poll)? {
            FromInit::Exited(departure) => self.outcome.departure = Some(departure),
            FromInit::Acted(reply) => {
                if let Some(listener) = self.sandbox.listener() {
                    let after = watch.acted(listener, reply, record)?;
                    self.follow(after);
                }
            }
            FromInit::Died { pid, signal } => {
                record.signal(signal, Fate::EndedAProcess, &[("pid", json!(pid))])?;
                // The kernel ends nobody this way but for a system call that must never be.
                if signal == SIGSYS {
                    let reason = "a process was ended by SIGSYS, and the sandbox with it".to_owned();
                    self.follow(After::End(Ending::Violations, reason));
                }
            }
            FromInit::Gone => return Ok(Heard::Gone),
        }
        Ok(Heard::Message)
    }

    fn judge(&mut self, watch: &mut Watch<'_>, record: &mut Record<'_>) -> Result<(), SuperviseError> {
        let Some(listener) = self.sandbox.listener() else { return Ok(()) };
        let Some(notification) = listener.receive().map_err(SuperviseError::Poll)? else { return Ok(()) };
        let mut waiting = VecDeque::from([notification]);
        while let Some(notification) = waiting.pop_front() {
            // A call that has been received can no longer be broken off by a signal, so where every call is seen
            // none is left waiting for that.
            while watch.observer.is_some() && is_readable(listener.as_fd()) {
                let Some(next) = listener.receive().map_err(SuperviseError::Poll)? else { break };
                waiting.push_back(next);
            }
            let after = watch.call(self.sandbox, listener, notification, record)?;
            self.follow(after);
        }
        Ok(())
    }

    fn follow(&mut self, after: After) {
        if let After::End(ending, reason) = after {
            if ending == Ending::Escape {
                // For the trace; who made the call still waits for its answer.
                self.outcome.processes = trace::processes_now(self.sandbox, self.meter.belonging);
            }
            self.sandbox.kill();
            self.outcome.ended.get_or_insert((ending, reason));
        }
    }

    fn forward_signals(&self, record: &mut Record<'_>) -> Result<(), SuperviseError> {
        let Some(signals) = self.signals else { return Ok(()) };
        while let Some(signal) = sys::read_signal(signals) {
            let sender = [("senderPid", json!(signal.sender_pid)), ("senderUid", json!(signal.sender_uid))];
            record.signal(signal.number, Fate::PassedOn, &sender)?;
            let _ = match signal.number {
                SIGWINCH => {
                    if let (Some(relay), Some(master)) = (&self.relay, self.sandbox.terminal()) {
                        relay.resize(master);
                        Ok(())
                    } else {
                        self.sandbox.signal(SIGWINCH, Target::Group)
                    }
                }
                // What a terminal sends goes to the whole group, as it would have.
                number @ (SIGHUP | SIGINT | SIGQUIT | SIGCONT) => self.sandbox.signal(number, Target::Group),
                SIGTSTP => {
                    // The command's group has no shell above it that could stop it: stop it outright.
                    let stopped = self.sandbox.signal(SIGSTOP, Target::Group);
                    let _ = sys::kill(std::process::id() as i32, SIGSTOP);
                    stopped
                }
                number => self.sandbox.signal(number, Target::Command),
            };
        }
        Ok(())
    }

    fn relay_bytes(&mut self, ready: &Ready) {
        let (Some(relay), Some(master)) = (&mut self.relay, self.sandbox.terminal()) else { return };
        if ready.input {
            relay.read_input();
        }
        if ready.master_out {
            relay.write_input(master);
        }
        if ready.master_in {
            relay.read_output(master);
        }
    }

    fn check_limits(&mut self, record: &mut Record<'_>) -> Result<(), SuperviseError> {
        if self.meter.due().is_none_or(|due| Instant::now() < due) {
            return Ok(());
        }
        for exceeded in self.meter.look(self.sandbox) {
            if exceeded.consequence == Consequence::Ended {
                self.sandbox.kill();
                self.outcome.ended.get_or_insert((Ending::Limit, exceeded.description.clone()));
            }
            record.limit(exceeded)?;
        }
        Ok(())
    }

    fn check_clock(&mut self) {
        if self.patience.is_some_and(|patience| Instant::now() >= patience) {
            self.sandbox.kill();
            self.patience = None;
        }
        let (Some(deadline), Some(limit)) = (self.deadline, self.limit) else { return };
        if Instant::now() < deadline {
            return;
        }
        if self.outcome.ended.is_none() {
            let reason = format!("the command ran longer than {limit:?} and was ended (--timeout)");
            self.outcome.ended = Some((Ending::Timeout, reason));
            let _ = self.sandbox.signal(SIGTERM, Target::Group);
            self.deadline = Some(deadline + GRACE);
        } else {
            self.sandbox.kill();
            self.deadline = None;
        }
    }
}

enum Heard {
    Message,
    Gone,
}

/// What there is to do.
struct Ready {
    process: bool,
    control: bool,
    signals: bool,
    launch: bool,
    listener: bool,
    no_callers: bool,
    master_in: bool,
    master_out: bool,
    input: bool,
    carrier: bool,
    strays: bool,
    steering: bool,
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&zero)), Ok(1..))
}
