//! What a call of a tool came to, as the caller reads it, and when it may be told.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::{InputError, OutputForm, Tool, json};
use crate::{
    record::Violation,
    report::{Ending, Report},
};

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    pub tool: String,
    pub success: bool,
    /// A string; the value itself for a tool whose output is JSON.
    pub output: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolFailure>,
    /// Absent when nothing was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    pub duration_ms: u64,
    /// Was output beyond `maxOutput` cut off?
    pub truncated: bool,
    pub violations: Vec<Violation>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolFailure {
    pub code: ErrorCode,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// The closed set of reasons for which a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The input is not JSON, does not satisfy the schema, or names a path that is denied.
    InvalidInput,
    UnknownTool,
    /// The tool is barred since it tried to escape.
    Quarantined,
    /// Nothing was run: the policy, the sandbox or the program could not be had.
    NotStarted,
    Timeout,
    ResourceLimit,
    EscapeAttempt,
    /// More violations than the policy tolerates.
    PolicyViolations,
    /// It ended by itself, with something other than zero or by a signal.
    Failed,
    /// The output is not the one JSON value that was promised.
    BadOutput,
}

/// Is the output all that the tool wrote?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    Complete,
    /// There was more than `maxOutput`.
    CutOff,
}

impl ToolFailure {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        ToolFailure { code, message: message.into(), details: None }
    }

    /// The details are the list of what is wrong.
    pub fn invalid_input(errors: &[InputError]) -> Self {
        let message = match errors {
            [only] => only.to_string(),
            [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
            [] => "the input was refused".to_owned(),
        };
        let details = serde_json::to_value(errors).ok();
        ToolFailure { code: ErrorCode::InvalidInput, message, details }
    }
}

impl ToolResult {
    /// The result of a call for which nothing was started. The name is the one that was asked for.
    pub fn refused(tool: &str, failure: ToolFailure) -> Self {
        ToolResult {
            tool: tool.to_owned(),
            success: false,
            output: Value::String(String::new()),
            error: Some(failure),
            exit_code: None,
            sandbox_id: None,
            duration_ms: 0,
            truncated: false,
            violations: Vec::new(),
        }
    }

    /// The result of a call that was run: what it wrote to standard output, and the report of the sandbox.
    pub fn finished(tool: &Tool, output: &[u8], completeness: Completeness, report: &Report) -> Self {
        let truncated = completeness == Completeness::CutOff;
        let text = text_of(output, completeness);
        let (output, bad) = match tool.output {
            OutputForm::Text => (Value::String(text), None),
            OutputForm::Json => match json_of(&text, tool, completeness) {
                Ok(value) => (value, None),
                Err(bad) => (Value::String(text), Some(bad)),
            },
        };
        // Why a tool ended tells more than what it had written by then.
        let error = failure_of(report).or(bad);
        ToolResult {
            tool: tool.name.clone(),
            success: error.is_none(),
            output,
            error,
            exit_code: (report.outcome != Ending::NotExecuted).then_some(report.exit_code),
            sandbox_id: Some(report.sandbox_id.clone()),
            duration_ms: report.duration_ms,
            truncated,
            violations: report.violations.clone(),
        }
    }
}

fn failure_of(report: &Report) -> Option<ToolFailure> {
    let (code, message) = match report.outcome {
        Ending::Exited if report.exit_code == 0 => return None,
        Ending::Exited => (ErrorCode::Failed, format!("the tool ended with exit code {}", report.exit_code)),
        Ending::Signaled => {
            let signal = report.signal.map_or_else(String::new, |signal| format!(" {signal}"));
            (ErrorCode::Failed, format!("the tool was ended by signal{signal}"))
        }
        Ending::Timeout => (ErrorCode::Timeout, "the tool took longer than its policy allows".to_owned()),
        Ending::Limit => (ErrorCode::ResourceLimit, "the tool ran into a limit of its policy".to_owned()),
        Ending::Escape => (ErrorCode::EscapeAttempt, "the tool tried to leave its sandbox".to_owned()),
        Ending::Violations => {
            (ErrorCode::PolicyViolations, "the tool tried too often what its policy denies".to_owned())
        }
        Ending::NotExecuted => (ErrorCode::NotStarted, "the program could not be executed".to_owned()),
        Ending::AuditFailed => (ErrorCode::Failed, "the audit log could not be written".to_owned()),
    };
    Some(ToolFailure::new(code, report.reason.clone().unwrap_or(message)))
}

fn json_of(text: &str, tool: &Tool, completeness: Completeness) -> Result<Value, ToolFailure> {
    let bad = |message: String| ToolFailure::new(ErrorCode::BadOutput, message);
    if completeness == Completeness::CutOff {
        return Err(bad(format!("the output is larger than maxOutput ({})", tool.max_output)));
    }
    json::parse(text, usize::MAX).map_err(|error| bad(format!("the output is not one JSON value: {error}")))
}

/// Bytes that are not UTF-8 become U+FFFD; a character that was cut in two is left out.
fn text_of(output: &[u8], completeness: Completeness) -> String {
    let whole = match std::str::from_utf8(output) {
        Err(error) if completeness == Completeness::CutOff && error.error_len().is_none() => {
            output.get(..error.valid_up_to()).unwrap_or(output)
        }
        _ => output,
    };
    String::from_utf8_lossy(whole).into_owned()
}

/// How long to wait still, so that the answer comes at a multiple of `quantum` (RFC-0002 T-107: the time a
/// tool takes must not tell what it has seen). Zero means at once.
pub fn pad_to_quantum(elapsed: Duration, quantum: Duration) -> Duration {
    let beyond = elapsed.as_nanos().checked_rem(quantum.as_nanos()).unwrap_or(0);
    match beyond {
        0 => Duration::ZERO,
        beyond => {
            // Less than the quantum, so both parts fit.
            let second = 1_000_000_000;
            Duration::new(
                u64::try_from(beyond / second).unwrap_or(u64::MAX),
                u32::try_from(beyond % second).unwrap_or(0),
            )
            .abs_diff(quantum)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{
        report::{EnforcementReport, Usage},
        tools::tests::Dir,
    };

    #[test]
    fn the_answer_waits_for_the_next_multiple() {
        let ms = Duration::from_millis;
        assert_eq!(pad_to_quantum(ms(1), ms(250)), ms(249));
        assert_eq!(pad_to_quantum(ms(250), ms(250)), ms(0));
        assert_eq!(pad_to_quantum(ms(251), ms(250)), ms(249));
        assert_eq!(pad_to_quantum(ms(0), ms(250)), ms(0));
        assert_eq!(pad_to_quantum(ms(17), ms(0)), ms(0));
        assert_eq!(pad_to_quantum(Duration::from_nanos(1), ms(1)), Duration::from_nanos(999_999));
        assert_eq!(pad_to_quantum(ms(1), Duration::MAX), Duration::MAX - ms(1));
        assert_eq!(pad_to_quantum(Duration::MAX, Duration::MAX), ms(0));
    }

    proptest! {
        #[test]
        fn waiting_always_ends_on_a_multiple_and_is_shorter_than_one(
            elapsed in 0u64..1 << 60, quantum in 1u64..1 << 60
        ) {
            let wait = pad_to_quantum(Duration::from_nanos(elapsed), Duration::from_nanos(quantum));
            prop_assert!(wait < Duration::from_nanos(quantum));
            let end = u128::from(elapsed) + wait.as_nanos();
            prop_assert_eq!(end % u128::from(quantum), 0);
        }
    }

    #[test]
    fn a_character_that_was_cut_in_two_is_left_out() {
        assert_eq!(text_of("aé".as_bytes().get(..2).unwrap(), Completeness::CutOff), "a");
        assert_eq!(text_of(b"a\xc3", Completeness::Complete), "a\u{fffd}");
        assert_eq!(text_of(b"a\xffb\xc3", Completeness::CutOff), "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn codes_are_written_in_capitals() {
        let failure = ToolFailure::new(ErrorCode::PolicyViolations, "m");
        let text = serde_json::to_string(&failure).unwrap();
        assert_eq!(text, r#"{"code":"POLICY_VIOLATIONS","message":"m"}"#);
    }

    fn report(outcome: Ending, exit_code: i32) -> Report {
        Report {
            sandbox_id: "s".to_owned(),
            level: 2,
            enforcement: EnforcementReport {
                layers: Vec::new(),
                missing: Vec::new(),
                weaker: Vec::new(),
                landlock_abi: 0,
                resources: crate::meter::Mechanism::Unneeded,
            },
            exit_code,
            signal: None,
            outcome,
            reason: None,
            duration_ms: 7,
            usage: Usage::default(),
            trace: None,
            transaction: None,
            quarantined: None,
            limits: Vec::new(),
            network: None,
            remarks: Vec::new(),
            violations: Vec::new(),
        }
    }

    #[test]
    fn a_result_says_how_the_call_ended() {
        let dir = Dir::new();
        let tool = dir.tool("[tools.a]\ncommand = [\"p\"]\n");
        let good = ToolResult::finished(&tool, b"5\n", Completeness::CutOff, &report(Ending::Exited, 0));
        let expected = json!({
            "tool": "a", "success": true, "output": "5\n", "exitCode": 0, "sandboxId": "s", "durationMs": 7,
            "truncated": true, "violations": [],
        });
        assert_eq!(serde_json::to_value(&good).unwrap(), expected);
        for (ending, code) in [
            (Ending::Exited, ErrorCode::Failed),
            (Ending::Signaled, ErrorCode::Failed),
            (Ending::Timeout, ErrorCode::Timeout),
            (Ending::Limit, ErrorCode::ResourceLimit),
            (Ending::Escape, ErrorCode::EscapeAttempt),
            (Ending::Violations, ErrorCode::PolicyViolations),
            (Ending::NotExecuted, ErrorCode::NotStarted),
            (Ending::AuditFailed, ErrorCode::Failed),
        ] {
            let result = ToolResult::finished(&tool, b"", Completeness::Complete, &report(ending, 1));
            assert!(!result.success);
            assert_eq!(result.error.unwrap().code, code, "{ending:?}");
        }
    }

    #[test]
    fn a_tool_that_promises_json_must_write_one_value() {
        let dir = Dir::new();
        let tool = dir.tool("[tools.a]\ncommand = [\"p\"]\noutput = \"json\"\n");
        let finish = |output: &[u8], completeness, exit_code| {
            ToolResult::finished(&tool, output, completeness, &report(Ending::Exited, exit_code))
        };
        let good = finish(b" {\"a\": [1]}\n", Completeness::Complete, 0);
        assert!(good.success);
        assert_eq!(good.output, json!({ "a": [1] }));
        for output in [&b""[..], b"1 2", b"{\"a\":1,\"a\":2}", b"\xff", b"text"] {
            let result = finish(output, Completeness::Complete, 0);
            assert_eq!(result.error.unwrap().code, ErrorCode::BadOutput);
            assert_eq!(result.output, String::from_utf8_lossy(output).as_ref());
        }
        // What is cut off may by chance still be JSON, and means something else.
        assert_eq!(finish(b"12", Completeness::CutOff, 0).error.unwrap().code, ErrorCode::BadOutput);
        assert_eq!(finish(b"", Completeness::Complete, 3).error.unwrap().code, ErrorCode::Failed);
    }
}
