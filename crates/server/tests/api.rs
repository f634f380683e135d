//! Requests over real connections to a server with a small store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use engine::columns::{Columns, Field, Kind, Schema, Value};
use serde_json::{Value as Json, json};
use server::{Certificate, Facts, Mode, Options, Server, ServerError};
use store::{Count, Spread, Store, TableLimits};

const SCHEMA: Schema = &[
    Field::new("community_id", Kind::Text, "Community ID."),
    Field::new("src_ip", Kind::Text, "Source."),
    Field::new("dst_ip", Kind::Text, "Destination."),
    Field::new("first_ns", Kind::TimestampNs, "First.").nullable(),
    Field::new("last_ns", Kind::TimestampNs, "Last.").nullable(),
    Field::new("src_packets", Kind::U64, "Packets."),
    Field::new("src_bytes", Kind::U64, "Bytes."),
    Field::new("dst_packets", Kind::U64, "Packets."),
    Field::new("dst_bytes", Kind::U64, "Bytes."),
    Field::new("server_name", Kind::Text, "Name.").nullable(),
];

const HOSTILE: &str = "<script>alert(1)</script>\u{1b}[2J";

fn push(store: &Store, at: i64, name: Option<&str>) {
    let mut columns = Columns::new(SCHEMA);
    let id = format!("1:{at}");
    let ns = 1_764_113_831_123_456_789 + at;
    columns
        .push_row(&[
            Value::Str(&id),
            Value::Str("10.0.0.1"),
            Value::Str("192.0.2.7"),
            Value::TimestampNs(ns),
            Value::TimestampNs(ns + 1),
            Value::U64(2),
            Value::U64(100),
            Value::U64(1),
            Value::U64(1_000 + at.unsigned_abs()),
            name.map(Value::Str).into(),
        ])
        .unwrap();
    store.find("flows").unwrap().push(&columns);
}

fn store() -> Arc<Store> {
    let store = Store::new();
    store.add("flows", "Flows.", SCHEMA, TableLimits::default());
    push(&store, 0, Some("one.example"));
    push(&store, 1, Some(HOSTILE));
    push(&store, 2, None);
    store.put_counts("flows", 0, vec![Count::total("ended", "Flows.", 3).with("reason", "fin")]);
    store
}

fn begin(store: &Arc<Store>, token: Option<&str>) -> Server {
    let facts = Facts {
        version: "1.2.3",
        mode: Mode::Live,
        inputs: Box::new(|| vec!["eth0".into()]),
        now_ns: || 1_764_113_831_000_000_000,
        packets: Box::new(|| (9, 1)),
        packet_log: None,
        history: None,
    };
    let listen = "127.0.0.1:0".parse().unwrap();
    let token = token.map(str::to_owned);
    let options = Options { listen, token, certificate: None };
    Server::begin(options, Arc::clone(store), facts).unwrap()
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("JSON: {}", self.body))
    }

    fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }
}

/// Sends a request as it stands, and reads one answer.
fn send(address: SocketAddr, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

fn get_with(address: SocketAddr, path: &str, headers: &str) -> Answer {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    send(address, &request)
}

fn get(server: &Server, path: &str) -> Answer {
    get_with(server.address(), path, "")
}

#[test]
fn the_state_names_tables_and_columns() {
    let server = begin(&store(), None);
    let state = get(&server, "/api/v1/state").json();
    assert_eq!(state["packets"]["received"], 9);
    assert_eq!(state["inputs"], json!(["eth0"]));
    let flows = &state["tables"][0];
    assert_eq!((&flows["rows"], &flows["time"]), (&json!(3), &json!("last_ns")));
    assert_eq!(flows["last"], "1764113831123456792", "all digits");
    assert_eq!(flows["columns"][0]["about"], "Community ID.");
    server.end();
}

#[test]
fn rows_groups_and_series_are_answered() {
    let server = begin(&store(), None);
    let rows =
        get(&server, "/api/v1/tables/flows?sort=-dst_bytes&limit=2&columns=dst_bytes").json();
    assert_eq!(rows["rows"], json!([[1002], [1001]]));
    assert_eq!((&rows["matched"], &rows["searched"]), (&json!(3), &json!(3)));
    let found =
        get(&server, "/api/v1/tables/flows?where=server_name%20contains%20%22ONE%22").json();
    assert_eq!(found["matched"], 1);
    assert_eq!(found["rows"][0][3], "1764113831123456789");
    let path = "/api/v1/tables/flows/groups?by=src_ip&sum=dst_bytes,src_bytes&sort=-sum_dst_bytes";
    let groups = get(&server, path).json();
    assert_eq!(groups["columns"], json!(["src_ip", "rows", "sum_dst_bytes", "sum_src_bytes"]));
    assert_eq!(groups["rows"], json!([["10.0.0.1", 3, 3003, 300]]));
    let path = "/api/v1/tables/flows/groups?by=src_ip&max=last_ns&sum=bytes&sort=-sum_bytes";
    let groups = get(&server, path).json();
    assert_eq!(groups["rows"], json!([["10.0.0.1", 3, 3303, "1764113831123456792"]]), "exact");
    let series = get(&server, "/api/v1/tables/flows/series?value=dst_bytes&step=1s").json();
    assert_eq!(series["series"], json!([{"name": "dst_bytes", "values": [3003]}]));
    server.end();
}

#[test]
fn values_of_groups_are_bounded() {
    let server = begin(&store(), None);
    let path = "/api/v1/tables/flows/groups?by=src_ip,src_ip&sum=bytes,src_bytes,bytes&max=bytes";
    let groups = get(&server, path).json();
    let columns = json!(["src_ip", "rows", "sum_bytes", "sum_src_bytes", "max_bytes"]);
    assert_eq!(groups["columns"], columns, "each once");
    // Each list is within the limit, and all four together are not.
    let fields = (0..17).map(|at| Field::new(format!("n{at}").leak(), Kind::U64, ""));
    let wide: Schema = fields.collect::<Vec<_>>().leak();
    let store = Store::new();
    store.add("wide", "", wide, TableLimits::default());
    let server_of_wide = begin(&store, None);
    let names: Vec<_> = wide.iter().map(|field| field.name).collect();
    let path = |names: &[&str]| {
        let names = names.join(",");
        let lists = ["sum", "max", "min", "mean"].map(|list| format!("&{list}={names}"));
        format!("/api/v1/tables/wide/groups?by=n0{}", lists.concat())
    };
    assert_eq!(get(&server_of_wide, &path(&names[..16])).status, 200);
    let refused = get(&server_of_wide, &path(&names));
    assert_eq!(refused.status, 400, "{}", refused.body);
    let wanted = "68 columns of sum, max, min and mean; wanted: 64 at most";
    assert_eq!(refused.error(), wanted);
    server_of_wide.end();
    server.end();
}

#[test]
fn flows_and_hosts_are_put_together() {
    let server = begin(&store(), None);
    let flow = get(&server, "/api/v1/flows/1:1?first_ns=1764113831123456790").json();
    assert_eq!(flow["tables"]["flows"]["rows"][0][9], HOSTILE, "as it was seen");
    assert_eq!(get(&server, "/api/v1/flows/1:1?first_ns=1").status, 404);
    let hosts = get(&server, "/api/v1/hosts?sort=-bytes_sent").json();
    assert_eq!(hosts["rows"][0][0], "192.0.2.7");
    assert_eq!(hosts["rows"][0][1], 3003);
    assert_eq!(hosts["rows"][1][6], 1, "peers");
    let host = get(&server, "/api/v1/hosts/10.0.0.1").json();
    assert_eq!(host["tables"]["flows"]["rows"].as_array().unwrap().len(), 3);
    assert_eq!(get(&server, "/api/v1/hosts/10.0.0.9").status, 404);
    server.end();
}

#[test]
fn what_is_wrong_is_said() {
    let server = begin(&store(), None);
    for (path, status, wanted) in [
        ("/api/v1/tables/flow", 404, "this run has: flows"),
        ("/api/v1/tables/flows?limit=99999", 400, "10000 at most"),
        ("/api/v1/tables/flows?limit=-1", 400, "limit"),
        ("/api/v1/tables/flows?colour=1", 400, "colour"),
        ("/api/v1/tables/flows?where=colour%20%3D%3D%201", 400, "no column"),
        ("/api/v1/tables/flows?sort=colour", 400, "no column"),
        (
            "/api/v1/tables/flows?sort=bytes,bytes,bytes,bytes,bytes,bytes,bytes,bytes,bytes",
            400,
            "8 at most",
        ),
        ("/api/v1/tables/flows?from=noon", 400, "wanted"),
        ("/api/v1/tables/flows/groups", 400, "by"),
        ("/api/v1/tables/flows/groups?by=", 400, "by: empty"),
        ("/api/v1/tables/flows/series?step=0", 400, "step"),
        ("/api/v1/tables/flows/series?aggregate=median", 400, "sum, max"),
        ("/api/v1/hosts/nobody", 400, "an IP address"),
        ("/api/v1/packetlog/search", 404, "[packetlog]"),
        ("/api/v1/packetlog/pcapng?host=x", 400, "an IP address"),
        ("/api/v1/nothing", 404, "openapi.json"),
    ] {
        let answer = get(&server, path);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(answer.error().contains(wanted), "{path}: {}", answer.body);
    }
    assert_eq!(get(&server, "/../../etc/passwd").status, 404);
    assert_eq!(get(&server, "/%2e%2e/%2e%2e/etc/passwd").status, 404);
    server.end();
}

#[test]
fn every_answer_is_guarded() {
    let server = begin(&store(), None);
    let address = server.address();
    let answer = get(&server, "/api/v1/state");
    for header in ["content-security-policy: default-src 'none'", "nosniff", "no-store"] {
        assert!(answer.head.contains(header), "{}", answer.head);
    }
    let of_host = |host: &str| {
        send(
            address,
            &format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
        )
    };
    assert_eq!(of_host("attacker.example").status, 421, "DNS rebinding");
    assert_eq!(of_host("localhost:9417").status, 200);
    assert_eq!(of_host("[::1]:80").status, 200);
    let cross = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\n";
    assert_eq!(get_with(address, "/api/v1/state", cross).status, 403);
    let link = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n";
    for (path, status) in [
        ("/", 200),
        ("/api/v1/state", 403),
        ("/api/v1/packetlog/pcapng", 403),
        ("/api/v1/openapi.json", 403),
        ("/metrics", 403),
    ] {
        assert_eq!(get_with(address, path, link).status, status, "{path}");
    }
    let typed = "Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\n";
    assert_eq!(get_with(address, "/metrics", typed).status, 200);
    let posted = send(
        address,
        "POST /api/v1/state HTTP/1.1\r\nHost: localhost\r\n\
                      Connection: close\r\nContent-Length: 0\r\n\r\n",
    );
    assert_eq!(posted.status, 405);
    // Monitors ask for heads, of the page as of the API.
    for path in ["/", "/api/v1/state", "/metrics"] {
        let asked = format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let head = send(address, &asked);
        assert_eq!((head.status, head.body.as_str()), (200, ""), "{path}");
    }
    // Two lengths are how requests are smuggled.
    let smuggled = [
        "GET /api/v1/state HTTP/1.1",
        "Host: localhost",
        "Content-Length: 5",
        "Transfer-Encoding: chunked",
        "Connection: close",
        "",
        "0\r\n\r\n",
    ];
    let smuggled = send(address, &smuggled.join("\r\n"));
    assert!(smuggled.status == 400 || smuggled.status == 200, "{}", smuggled.head);
    assert_eq!(smuggled.head.matches("http/1.1").count(), 1);
    server.end();
}

#[test]
fn with_a_token_nothing_is_said_without_it() {
    let server = begin(&store(), Some("0123456789abcdef"));
    let address = server.address();
    assert_eq!(get(&server, "/api/v1/state").status, 401);
    assert_eq!(get(&server, "/metrics").status, 401);
    assert_eq!(get(&server, "/?token=wrong").status, 401);
    let bearer = "Authorization: Bearer 0123456789abcdef\r\n";
    assert_eq!(get_with(address, "/api/v1/state", bearer).status, 200);
    let welcome = get(&server, "/?token=0123456789abcdef");
    assert_eq!(welcome.status, 303);
    assert!(welcome.head.contains("httponly; samesite=strict"), "{}", welcome.head);
    let cookie = "Cookie: other=1; wirelens=0123456789abcdef\r\n";
    assert_eq!(get_with(address, "/api/v1/state", cookie).status, 200);
    server.end();
}

#[test]
fn two_runs_on_one_machine_have_cookies_of_their_own() {
    let tokens = ["0123456789abcdef", "fedcba9876543210"];
    let servers = tokens.map(|token| begin(&store(), Some(token)));
    let cookies: Vec<_> = servers
        .iter()
        .zip(tokens)
        .map(|(server, token)| {
            let head = get(server, &format!("/?token={token}")).head;
            let (_, cookie) = head.split_once("set-cookie: ").unwrap();
            cookie.split(';').next().unwrap().to_owned()
        })
        .collect();
    let names: Vec<_> = cookies.iter().map(|cookie| cookie.split_once('=').unwrap().0).collect();
    assert_ne!(names[0], names[1], "a browser keeps both");
    let headers = format!("Cookie: {}\r\n", cookies.join("; "));
    for server in servers {
        assert_eq!(get_with(server.address(), "/api/v1/state", &headers).status, 200);
        let other = "Cookie: wirelens=0123456789abcdee\r\n";
        assert_eq!(get_with(server.address(), "/api/v1/state", other).status, 401);
        server.end();
    }
}

#[test]
fn beyond_this_machine_a_token_and_encryption_are_needed() {
    let refused = |token: Option<&str>, certificate| {
        let facts = Facts {
            version: "1",
            mode: Mode::Captures,
            inputs: Box::new(Vec::new),
            now_ns: || 0,
            packets: Box::new(|| (0, 0)),
            packet_log: None,
            history: None,
        };
        let (listen, token) = ("0.0.0.0:0".parse().unwrap(), token.map(str::to_owned));
        Server::begin(Options { listen, token, certificate }, store(), facts).err()
    };
    let made = Certificate::Made(vec![String::from("localhost")]);
    assert!(matches!(refused(None, Some(made)), Some(ServerError::NeedsToken(_))));
    let token = Some("0123456789abcdef");
    assert!(matches!(refused(token, None), Some(ServerError::NeedsTls(_))));
    let missing = Certificate::Files { chain: "no.pem".into(), key: "no.pem".into() };
    let error = refused(token, Some(missing)).unwrap();
    assert!(error.to_string().starts_with("no.pem: "), "{error}");
}

#[test]
fn prometheus_is_given_its_type_and_names() {
    let store = store();
    let dropped = Count::total("packets_dropped", "Lost.", 1);
    store.put_counts("run", 0, vec![dropped.with("stage", "capture").with("cause", "ring_full")]);
    let memory = Count::gauge("resident_memory_bytes", "Memory.", 5.0);
    store.put_counts("process", 0, vec![memory]);
    let bounds = &[0.001, 1.0];
    let spread = Spread { bounds, counts: vec![3, 0, 2], sum: 2.5 };
    let latency = Count::histogram("latency_seconds", "Time.", spread).with("table", "flows");
    store.put_counts("flows", 1, vec![latency]);
    let server = begin(&store, None);
    let answer = get(&server, "/metrics");
    assert!(answer.head.contains("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    for line in [
        "wirelens_flows_ended_total{reason=\"fin\"} 3",
        "wirelens_packets_dropped_total{stage=\"capture\",cause=\"ring_full\"} 1",
        "process_resident_memory_bytes 5",
        "# TYPE wirelens_flows_latency_seconds histogram",
        "wirelens_flows_latency_seconds_bucket{le=\"0.001\",table=\"flows\"} 3",
        "wirelens_flows_latency_seconds_bucket{le=\"1.0\",table=\"flows\"} 3",
        "wirelens_flows_latency_seconds_bucket{le=\"+Inf\",table=\"flows\"} 5",
        "wirelens_flows_latency_seconds_count{table=\"flows\"} 5",
        "wirelens_flows_latency_seconds_sum{table=\"flows\"} 2.5",
        "wirelens_store_rows_kept{table=\"flows\"} 3",
        "# EOF",
    ] {
        assert!(answer.body.contains(line), "{line}: {}", answer.body);
    }
    assert!(!answer.body.contains("10.0.0.1") && !answer.body.contains("example"));
    server.end();
}

#[test]
fn a_scrape_has_no_more_series_than_it_may() {
    let store = store();
    let counts = (0..3_000).map(|at| Count::total("many", "Many.", at).with("at", at.to_string()));
    store.put_counts("flows", 1, counts.collect());
    let server = begin(&store, None);
    let body = get(&server, "/metrics").body;
    let series = body.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(series, 2_000);
    let left_out = body.lines().find(|line| line.starts_with("wirelens_server_series_left_out "));
    let left_out: f64 = left_out.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(left_out > 1_000.0, "{left_out}");
    assert!(body.contains("wirelens_server_requests_total"), "what the server says stays");
    server.end();
}

#[test]
fn who_scrapes_asks_for_counts_alone() {
    let store = store();
    let server = begin(&store, None);
    get(&server, "/metrics");
    assert_eq!((store.asked(), store.asked_for_rows()), (1, 0));
    store.end();
    get(&server, "/metrics");
    assert_eq!(store.asked(), 1, "no one answers any more");
    server.end();
}

#[test]
fn events_say_what_has_changed() {
    let store = store();
    let server = begin(&store, None);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let request = "GET /api/v1/stream?table=flows&where=1:77 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut next = |start: &str| lines.find(|line| line.starts_with(start)).unwrap();
    assert_eq!(next("event"), "event: state");
    assert!(next("data").contains("\"received\":9"));
    push(&store, 5, None);
    push(&store, 77, None);
    let data = loop {
        if next("event") == "event: rows" {
            break next("data");
        }
    };
    assert!(data.contains("1:77") && !data.contains("1:5"), "{data}");
    server.end();
}

#[test]
fn a_connection_that_says_nothing_is_dropped() {
    let server = begin(&store(), None);
    let mut idle = TcpStream::connect(server.address()).unwrap();
    idle.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut none = [0; 64];
    let _ = idle.read(&mut none).expect("closed, not waited for");
    server.end();
}

#[test]
fn the_description_has_every_path() {
    let server = begin(&store(), None);
    let description = get(&server, "/api/v1/openapi.json").json();
    assert_eq!(description["openapi"], "3.1.0");
    assert_eq!(description["info"]["version"], "1.2.3");
    let paths: Vec<_> = description["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths.len(), 12, "{paths:?}");
    server.end();
}
