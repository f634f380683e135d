//! The stream that keeps rows: looked up, and created where there is none.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::context::{CreateStreamErrorKind, RequestError, RequestErrorKind};
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{Context, ErrorCode, context::ContextBuilder};
use serde_json::Value as Json;

use crate::Options;
use crate::message::{all_rows, stream_name};

/// The broker recognises a message that is published again for so long.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(600);

/// What is created where there is no stream.
pub(crate) fn wanted(options: &Options) -> Config {
    let Options { prefix, keep, keep_bytes, .. } = options;
    Config {
        name: stream_name(prefix),
        subjects: vec![all_rows(prefix)],
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::Old,
        storage: StorageType::File,
        num_replicas: 1,
        max_age: *keep,
        max_bytes: i64::try_from(*keep_bytes).unwrap_or(i64::MAX),
        duplicate_window: DUPLICATE_WINDOW.min(*keep),
        ..Config::default()
    }
}

/// What the server says of a stream, as it says it: one that is newer than this library may say
/// more.
pub(crate) async fn info(context: &Context, name: &str) -> Result<Response<Json>, RequestError> {
    context.request(format!("STREAM.INFO.{name}"), &()).await
}

/// Bytes of a message with its headers that a stream takes, as its info says.
fn message_len_max(info: &Json) -> usize {
    let limit = info.pointer("/config/max_msg_size").and_then(Json::as_u64);
    let limit = limit.filter(|&limit| limit > 0).map(usize::try_from);
    limit.and_then(Result::ok).unwrap_or(usize::MAX)
}

/// Looks for the stream, and creates it where there is none. An operator's own is used as it is:
/// how many bytes of a message it takes.
///
/// # Errors
/// Why there is none, for users.
pub(crate) async fn find(
    client: Client,
    wanted: Config,
    within: Duration,
) -> Result<usize, String> {
    let context = ContextBuilder::new().timeout(within).build(client);
    match info(&context, &wanted.name).await {
        Ok(Response::Ok(info)) => return Ok(message_len_max(&info)),
        Ok(Response::Err { error }) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {}
        Ok(Response::Err { error }) => return Err(no_stream(&error.to_string())),
        Err(error) => return Err(unanswered(error.kind(), &error.to_string())),
    }
    let Err(error) = context.create_stream(wanted).await else { return Ok(usize::MAX) };
    match error.kind() {
        // Another sensor has created it since, without a limit as we would have.
        CreateStreamErrorKind::JetStream(error)
            if error.error_code() == ErrorCode::STREAM_NAME_EXIST =>
        {
            Ok(usize::MAX)
        }
        CreateStreamErrorKind::TimedOut => Err(unanswered(RequestErrorKind::TimedOut, "")),
        _ => Err(no_stream(&error.to_string())),
    }
}

fn unanswered(kind: RequestErrorKind, why: &str) -> String {
    match kind {
        RequestErrorKind::TimedOut => String::from("the broker does not answer about its stream"),
        RequestErrorKind::NoResponders => no_stream("JetStream does not answer"),
        _ => no_stream(why),
    }
}

fn no_stream(why: &str) -> String {
    format!("no stream for rows: {why}; wanted: a server with JetStream (nats-server -js)")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_limit_of_a_stream_is_read_where_it_has_one() {
        for (info, wanted) in [
            (json!({"config": {"max_msg_size": 4096}}), 4096),
            (json!({"config": {"max_msg_size": -1}}), usize::MAX),
            (json!({"config": {"max_msg_size": 0}}), usize::MAX),
            (json!({"config": {}}), usize::MAX),
            (json!([]), usize::MAX),
        ] {
            assert_eq!(message_len_max(&info), wanted, "{info}");
        }
    }
}
