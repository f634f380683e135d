//! Programs for the kernel: what reaches the ring, and how much of it.
//!
//! A filter is libpcap's; this adds what is ours. The number of bytes to keep is the value
//! that a program returns. On loopback the kernel shows each packet twice, as sent and as
//! received: the first is refused. On `any` each kind of interface has a part of its own,
//! since a filter for Ethernet frames reads bare IP packets in the wrong places.

use packet::LinkType;

use super::link::{KNOWN, LOOPBACK};
use super::options::Passing;
use crate::sys::libpcap::Instruction;

const LOAD_WORD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// Where the kernel lets programs read a frame's metadata.
const BESIDE_FRAME: u32 = libc::SKF_AD_OFF.cast_unsigned();
const HARDWARE_TYPE: u32 = BESIDE_FRAME + libc::SKF_AD_HATYPE.cast_unsigned();
const PACKET_TYPE: u32 = BESIDE_FRAME + libc::SKF_AD_PKTTYPE.cast_unsigned();

const fn instruction(code: u16, operand: u32) -> Instruction {
    Instruction { code, jump_true: 0, jump_false: 0, operand }
}

/// Skips `jump_false` instructions unless what was loaded is `operand`.
const fn unless_equal(operand: u32, jump_false: u8) -> Instruction {
    Instruction { code: JUMP_IF_EQUAL, jump_true: 0, jump_false, operand }
}

/// Lets nothing pass.
pub(crate) const REFUSE_ALL: &[Instruction] = &[instruction(RETURN, 0)];

/// Lets everything pass, the first `snaplen` bytes of it.
pub(crate) fn accept_all(snaplen: u32) -> Vec<Instruction> {
    vec![instruction(RETURN, snaplen)]
}

/// Makes what passes a filter pass with its first `snaplen` bytes.
pub(crate) fn limit(mut program: Vec<Instruction>, snaplen: u32) -> Vec<Instruction> {
    let accepting = |step: &&mut Instruction| step.code == RETURN && step.operand != 0;
    program.iter_mut().filter(accepting).for_each(|step| step.operand = snaplen);
    program
}

/// `program`, after the packets that loopback is about to show again were refused.
pub(crate) fn once_on_loopback(program: Vec<Instruction>) -> Vec<Instruction> {
    let mut whole = vec![
        instruction(LOAD_WORD, PACKET_TYPE),
        unless_equal(u32::from(libc::PACKET_OUTGOING), 3),
        instruction(LOAD_WORD, HARDWARE_TYPE),
        unless_equal(u32::from(LOOPBACK), 1),
        instruction(RETURN, 0),
    ];
    whole.extend(program);
    whole
}

/// `program`, after what passes the other way was refused.
pub(crate) fn passing(passing: Passing, program: Vec<Instruction>) -> Vec<Instruction> {
    let refusal = instruction(RETURN, 0);
    let sent = u32::from(libc::PACKET_OUTGOING);
    let mut whole = match passing {
        Passing::Both => return program,
        Passing::In => vec![unless_equal(sent, 1), refusal],
        Passing::Out => vec![unless_equal(sent, 1), instruction(JUMP, 1), refusal],
    };
    whole.insert(0, instruction(LOAD_WORD, PACKET_TYPE));
    whole.extend(program);
    whole
}

/// For each hardware type that is known, the part that is for its link type. The rest is
/// refused: no one could tell what its frames begin with.
pub(crate) fn by_link(parts: &[(LinkType, Vec<Instruction>)]) -> Vec<Instruction> {
    let mut kinds = Vec::new();
    for (hardware_type, link) in KNOWN {
        let mut offset = 0;
        for (part_link, part) in parts {
            if part_link == link {
                kinds.push((u32::from(*hardware_type), offset));
            }
            offset += part.len();
        }
    }
    let mut whole = vec![instruction(LOAD_WORD, HARDWARE_TYPE)];
    for (index, (hardware_type, offset)) in kinds.iter().enumerate() {
        // Jumps count from the next instruction: past the other kinds and the refusal.
        let distance = (kinds.len() - index - 1) * 2 + 1 + offset;
        whole.push(unless_equal(*hardware_type, 1));
        // Conditions jump at most 255 instructions far, this one anywhere.
        whole.push(instruction(JUMP, u32::try_from(distance).unwrap_or(u32::MAX)));
    }
    whole.extend(REFUSE_ALL);
    parts.iter().for_each(|(_, part)| whole.extend(part));
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program of the instructions above, as the kernel would.
    fn run(program: &[Instruction], hardware_type: u16, packet_type: u8) -> u32 {
        let mut loaded = 0;
        let mut at = 0;
        loop {
            let Instruction { code, jump_true, jump_false, operand } = program[at];
            at += 1;
            match code {
                LOAD_WORD if operand == HARDWARE_TYPE => loaded = u32::from(hardware_type),
                LOAD_WORD if operand == PACKET_TYPE => loaded = u32::from(packet_type),
                JUMP => at += operand as usize,
                JUMP_IF_EQUAL => {
                    at += usize::from(if loaded == operand { jump_true } else { jump_false });
                }
                RETURN => return operand,
                _ => panic!("unknown instruction {code:#x}"),
            }
        }
    }

    const RECEIVED: u8 = 0;
    const SENT: u8 = libc::PACKET_OUTGOING;

    #[test]
    fn only_what_passes_is_limited() {
        let filter =
            vec![unless_equal(262_144, 1), instruction(RETURN, 262_144), instruction(RETURN, 0)];
        let limited = limit(filter.clone(), 96);
        assert_eq!(limited, [filter[0], instruction(RETURN, 96), filter[2]]);
    }

    #[test]
    fn loopback_shows_each_packet_once_and_others_show_both_directions() {
        let program = once_on_loopback(accept_all(70));
        assert_eq!(run(&program, LOOPBACK, SENT), 0);
        assert_eq!(run(&program, LOOPBACK, RECEIVED), 70);
        assert_eq!(run(&program, libc::ARPHRD_ETHER, SENT), 70);
        assert_eq!(run(&program, libc::ARPHRD_ETHER, RECEIVED), 70);
    }

    #[test]
    fn one_way_is_shown_alone_on_loopback_as_well() {
        for (asked, sent, received) in
            [(Passing::Both, 70, 70), (Passing::In, 0, 70), (Passing::Out, 70, 0)]
        {
            let program = passing(asked, accept_all(70));
            for hardware_type in [libc::ARPHRD_ETHER, LOOPBACK] {
                assert_eq!(run(&program, hardware_type, SENT), sent, "{asked:?}");
                assert_eq!(run(&program, hardware_type, RECEIVED), received, "{asked:?}");
                assert_eq!(run(&program, hardware_type, libc::PACKET_OTHERHOST), received);
            }
        }
    }

    #[test]
    fn each_kind_of_interface_gets_its_own_part_on_any() {
        let long = vec![unless_equal(1, 0); 300];
        let ethernet = long.into_iter().chain(accept_all(1)).collect();
        let parts = [(LinkType::ETHERNET, ethernet), (LinkType::RAW, accept_all(2))];
        let program = once_on_loopback(by_link(&parts));
        for (hardware_type, link) in KNOWN {
            let wanted = if *link == LinkType::ETHERNET { 1 } else { 2 };
            assert_eq!(run(&program, *hardware_type, RECEIVED), wanted, "{hardware_type}");
        }
        assert_eq!(run(&program, libc::ARPHRD_IPGRE, RECEIVED), 0);
        assert_eq!(run(&program, LOOPBACK, SENT), 0);
        assert_eq!(run(&by_link(&parts[1..]), libc::ARPHRD_ETHER, RECEIVED), 0);
    }
}
