//! Messages of our own: answers, refusals, notifications.

use bytes::Bytes;
use serde_json::{Value, json};

/// JSON-RPC's and MCP's codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
    UnsupportedVersion,
    ResourceNotFound,
}

impl Code {
    pub fn number(self) -> i64 {
        match self {
            Code::Parse => -32700,
            Code::InvalidRequest => -32600,
            Code::MethodNotFound => -32601,
            Code::InvalidParams => -32602,
            Code::Internal => -32603,
            Code::UnsupportedVersion => -32022,
            Code::ResourceNotFound => -32002,
        }
    }
}

/// `id` is raw JSON.
pub fn result(id: &[u8], result: &Value) -> Bytes {
    raw_result(id, &result.to_string())
}

pub fn raw_result(id: &[u8], result: &str) -> Bytes {
    let id = String::from_utf8_lossy(id);
    Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

pub fn error(id: &[u8], code: Code, message: &str) -> Bytes {
    error_with(id, code, message, &Value::Null)
}

pub fn error_with(id: &[u8], code: Code, message: &str, data: &Value) -> Bytes {
    let id = String::from_utf8_lossy(id);
    let mut error = json!({ "code": code.number(), "message": message });
    if !data.is_null()
        && let Some(error) = error.as_object_mut()
    {
        error.insert("data".to_owned(), data.clone());
    }
    Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
}

pub fn request(id: u64, method: &str, params: &str) -> Bytes {
    Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#))
}

pub fn notification(method: &str, params: &Value) -> Bytes {
    let params = if params.is_null() { String::new() } else { format!(",\"params\":{params}") };
    Bytes::from(format!(r#"{{"jsonrpc":"2.0","method":"{method}"{params}}}"#))
}
