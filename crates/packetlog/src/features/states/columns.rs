//! The columns of states: their names and what each means.

use super::flow::{FlowState, Gaps, Handshake, PairState};
use super::hosts::HostState;
use crate::features::columns::{MISSING, named_columns};

/// What is known when a packet has arrived, the packet included.
pub(super) struct StateView<'a> {
    pub(super) flow: &'a FlowState,
    /// Seconds since the flow's packet before; nothing for its first.
    pub(super) idle_s: Option<f32>,
    pub(super) age_s: f32,
    pub(super) is_from_client: bool,
    pub(super) pair: &'a PairState,
    pub(super) pair_age_s: f32,
    pub(super) client: &'a HostState,
    pub(super) server: &'a HostState,
}

macro_rules! state_columns {
    ($($variant:ident, $name:literal, $about:literal, $value:expr;)*) => {
        named_columns! {
            /// A number of what is known of a flow, of its hosts, and of both together.
            ///
            /// The **client** began the flow, the **server** is the other end. A **pair** is a
            /// client, a server, its port and the protocol.
            StateColumn: $($variant, $name, $about;)*
        }

        impl StateColumn {
            pub(super) fn value(self, view: &StateView<'_>) -> f32 {
                match self { $(Self::$variant => {
                    let of: fn(&StateView<'_>) -> f32 = $value;
                    of(view)
                })* }
            }
        }
    };
}

state_columns! {
    FlowIsFromClient, "flow_is_from_client", "Whether the client sent the packet, 0 or 1.",
        |view| yes(view.is_from_client);
    FlowHandshake, "flow_handshake",
        "TCP: 1 no SYN was seen, 2 SYN, 3 SYN and its answer, 4 established, 5 refused, 6 FIN, \
         7 RST.",
        |view| if view.flow.handshake == Handshake::NotTcp { MISSING } else {
            f32::from(view.flow.handshake as u8)
        };
    FlowIsUnsolicited, "flow_is_unsolicited",
        "Whether the flow's first packet was an answer, 0 or 1.",
        |view| yes(view.flow.is_unsolicited);
    FlowIsAnswered, "flow_is_answered",
        "Whether both ends have sent a packet, 0 or 1.",
        |view| yes(view.flow.is_answered);
    FlowAge, "flow_age_s", "Seconds since the flow's first packet.", |view| view.age_s;
    FlowIdle, "flow_idle_s", "Seconds since the flow's packet before this one.",
        |view| view.idle_s.unwrap_or(MISSING);
    FlowClientPackets, "flow_client_packets", "Packets of the client.",
        |view| view.flow.sides[0].packets as f32;
    FlowServerPackets, "flow_server_packets", "Packets of the server.",
        |view| view.flow.sides[1].packets as f32;
    FlowClientPayload, "flow_client_payload_bytes", "Payload of the client.",
        |view| view.flow.sides[0].payload_bytes as f32;
    FlowServerPayload, "flow_server_payload_bytes", "Payload of the server.",
        |view| view.flow.sides[1].payload_bytes as f32;
    FlowFirstRequest, "flow_first_request_bytes",
        "Payload of the client's first packet that has any.",
        |view| f32::from(view.flow.sides[0].first_payload_bytes);
    FlowFirstResponse, "flow_first_response_bytes",
        "Payload of the server's first packet that has any.",
        |view| f32::from(view.flow.sides[1].first_payload_bytes);
    FlowAsymmetry, "flow_asymmetry",
        "Payload of the client less that of the server, over their sum.",
        |view| asymmetry(view.flow.sides.map(|side| side.payload_bytes.into()));
    FlowTurns, "flow_turns", "Changes of direction between packets with payload.",
        |view| f32::from(view.flow.turns);
    FlowPayloadPerTurn, "flow_payload_per_turn_bytes",
        "Payload of both ends over the turns and one.",
        |view| {
            let [client, server] = view.flow.sides.map(|side| side.payload_bytes as f32);
            (client + server) / (f32::from(view.flow.turns) + 1.0)
        };
    FlowRequestGap, "flow_request_gap_s", "Mean seconds between requests of the flow.",
        |view| view.flow.requests.mean_s().unwrap_or(MISSING);
    FlowRequestVariation, "flow_request_variation",
        "Variation of the gaps between requests: standard deviation over mean.",
        |view| variation(&view.flow.requests);
    PairAge, "pair_age_s", "Seconds since the first flow of the pair.",
        |view| view.pair_age_s;
    PairFlows, "pair_flows", "Flows of the pair.", |view| view.pair.counts.flows as f32;
    PairFlowsPerSecond, "pair_flows_per_s",
        "Flows of the pair over the seconds since its first and one.",
        |view| view.pair.counts.flows as f32 / (view.pair_age_s + 1.0);
    PairUnanswered, "pair_unanswered_fraction", "Of the pair's flows those without an answer.",
        |view| fraction(view.pair.counts.unanswered, view.pair.counts.flows);
    PairRefused, "pair_refused_fraction", "Of the pair's flows those that were refused.",
        |view| fraction(view.pair.counts.refused, view.pair.counts.flows);
    PairHalfOpen, "pair_half_open_fraction",
        "Of the pair's flows those whose handshake has begun and not ended.",
        |view| fraction(view.pair.counts.half_open, view.pair.counts.flows);
    PairAsymmetry, "pair_asymmetry",
        "Payload of the client less that of the server, over their sum.",
        |view| asymmetry(view.pair.payload_bytes.map(|bytes| bytes as f64));
    PairGap, "pair_gap_s", "Seconds from the beginning of the flow before to the last one's.",
        |view| view.pair.begins.last_gap_s().unwrap_or(MISSING);
    PairGapVariation, "pair_gap_variation",
        "Variation of the gaps between beginnings of flows: standard deviation over mean.",
        |view| variation(&view.pair.begins);
    PairRequestPerFlow, "pair_client_payload_per_flow_bytes",
        "Payload of the client over the pair's flows.",
        |view| per_flow(view, 0);
    PairResponsePerFlow, "pair_server_payload_per_flow_bytes",
        "Payload of the server over the pair's flows.",
        |view| per_flow(view, 1);
    ClientFlows, "client_flows", "Flows that the client began in the last 30 to 60 s.",
        |view| view.client.sum(|of| of.counts.flows) as f32;
    ClientServers, "client_servers", "Different servers of these, about.",
        |view| view.client.peers();
    ClientPorts, "client_ports", "Different ports of servers, about.",
        |view| view.client.ports();
    ClientNewPairs, "client_new_pairs_fraction",
        "Of these flows those that were the first of their pair.",
        |view| view.client.fraction(|of| of.new_pairs);
    ClientUnanswered, "client_unanswered_fraction", "Of these flows those without an answer.",
        |view| view.client.fraction(|of| of.counts.unanswered);
    ClientHalfOpen, "client_half_open_fraction",
        "Of these flows those whose handshake has begun and not ended.",
        |view| view.client.fraction(|of| of.counts.half_open);
    ClientRefused, "client_refused_fraction", "Of these flows those that were refused.",
        |view| view.client.fraction(|of| of.counts.refused);
    ClientUnsolicited, "client_unsolicited",
        "Flows to the client that began with an answer, in the last 30 to 60 s.",
        |view| view.client.sum(|of| of.unsolicited) as f32;
    ServerFlows, "server_flows", "Flows to the server in the last 30 to 60 s.",
        |view| view.server.sum(|of| of.counts.flows) as f32;
    ServerClients, "server_clients", "Different clients of these, about.",
        |view| view.server.peers();
    ServerUnanswered, "server_unanswered_fraction", "Of these flows those without an answer.",
        |view| view.server.fraction(|of| of.counts.unanswered);
    ServerHalfOpen, "server_half_open_fraction",
        "Of these flows those whose handshake has begun and not ended.",
        |view| view.server.fraction(|of| of.counts.half_open);
    ServerRefused, "server_refused_fraction", "Of these flows those that were refused.",
        |view| view.server.fraction(|of| of.counts.refused);
}

const fn yes(is_so: bool) -> f32 {
    if is_so { 1.0 } else { 0.0 }
}

pub(super) fn fraction(some: u32, all: u32) -> f32 {
    some as f32 / all.max(1) as f32
}

fn variation(gaps: &Gaps) -> f32 {
    gaps.variation().unwrap_or(MISSING)
}

fn asymmetry([client, server]: [f64; 2]) -> f32 {
    if client + server == 0.0 { 0.0 } else { ((client - server) / (client + server)) as f32 }
}

fn per_flow(view: &StateView<'_>, side: usize) -> f32 {
    view.pair.payload_bytes[side] as f32 / view.pair.counts.flows.max(1) as f32
}
