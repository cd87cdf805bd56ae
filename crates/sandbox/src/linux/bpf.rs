//! Compiles a list of system call rules to seccomp BPF: a binary tree over ranges of call numbers, which
//! the kernel walks (and caches) faster than a list.

use super::syscalls::{NATIVE_ARCH, X32_BIT};

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    Allow,
    /// Fails with this errno, unseen.
    Errno(u16),
    /// Goes to the supervisor, which logs and answers it.
    Notify,
}

/// A test on the low 32 bits of an argument: `argument & mask == value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Test {
    pub argument: u8,
    pub mask: u32,
    pub value: u32,
}

impl Test {
    pub fn equals(argument: u8, value: u32) -> Self {
        Test { argument, mask: u32::MAX, value }
    }
}

/// All tests hold: the action is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub tests: Vec<Test>,
    pub action: Action,
}

/// One call: the first case that holds decides, else `otherwise`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub number: u32,
    pub cases: Vec<Case>,
    pub otherwise: Action,
}

impl Rule {
    pub fn plain(number: u32, action: Action) -> Self {
        Rule { number, cases: Vec::new(), otherwise: action }
    }

    /// What becomes of the call with these arguments: the same that the compiled filter says.
    pub fn action(&self, args: &[u64; 6]) -> Action {
        let holds = |test: &Test| {
            args.get(usize::from(test.argument)).is_some_and(|value| *value as u32 & test.mask == test.value)
        };
        let deciding = self.cases.iter().find(|case| case.tests.iter().all(holds));
        deciding.map_or(self.otherwise, |case| case.action)
    }
}

/// The whole filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    pub rules: Vec<Rule>,
    /// For numbers that no rule names.
    pub unlisted: Action,
    /// For calls of a foreign architecture (int 0x80) or with the x32 bit.
    pub foreign: Action,
}

const LD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const JEQ: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JGE: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JA: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const RET: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCH: u32 = 4;

type Code = Vec<libc::sock_filter>;

fn insn(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

fn ret(action: Action) -> libc::sock_filter {
    let value = match action {
        Action::Allow => libc::SECCOMP_RET_ALLOW,
        Action::Errno(errno) => libc::SECCOMP_RET_ERRNO | u32::from(errno),
        Action::Notify => libc::SECCOMP_RET_USER_NOTIF,
    };
    insn(RET, value)
}

/// The offset of the low word of an argument in seccomp_data (both architectures are little-endian).
fn argument_offset(argument: u8) -> u32 {
    16 + 8 * u32::from(argument)
}

/// What is done with one range of numbers.
#[derive(Clone, PartialEq)]
struct Leaf<'a> {
    cases: &'a [Case],
    otherwise: Action,
}

impl Leaf<'_> {
    fn emit(&self) -> Code {
        let mut code = Vec::new();
        for case in self.cases {
            // Later tests first, so that each knows how far the end of the case is.
            let mut body = vec![ret(case.action)];
            for test in case.tests.iter().rev() {
                let skip = body.len() as u8;
                let mut head = vec![insn(LD, argument_offset(test.argument))];
                if test.mask != u32::MAX {
                    head.push(insn(AND, test.mask));
                }
                head.push(jump(JEQ, test.value, 0, skip));
                head.append(&mut body);
                body = head;
            }
            code.append(&mut body);
        }
        code.push(ret(self.otherwise));
        code
    }
}

/// Compiles the filter.
pub fn compile(filter: &Filter) -> Code {
    let mut code = vec![
        insn(LD, OFFSET_ARCH),
        jump(JEQ, NATIVE_ARCH, 1, 0),
        ret(filter.foreign),
        insn(LD, OFFSET_NUMBER),
    ];
    // x32 numbers, and -1 (which tracers use to skip a call).
    code.extend([jump(JGE, X32_BIT, 0, 1), ret(filter.foreign)]);
    code.append(&mut tree(&ranges(filter)));
    code
}

/// Neighbouring numbers with the same treatment become one range, named by its first number.
fn ranges(filter: &Filter) -> Vec<(u32, Leaf<'_>)> {
    let mut rules: Vec<&Rule> = filter.rules.iter().collect();
    rules.sort_by_key(|rule| rule.number);
    let unlisted = Leaf { cases: &[], otherwise: filter.unlisted };
    let mut ranges: Vec<(u32, Leaf<'_>)> = Vec::new();
    let mut next = 0;
    for rule in rules {
        if rule.number > next {
            push_range(&mut ranges, next, unlisted.clone());
        }
        push_range(&mut ranges, rule.number, Leaf { cases: &rule.cases, otherwise: rule.otherwise });
        next = rule.number + 1;
    }
    push_range(&mut ranges, next, unlisted);
    ranges
}

fn push_range<'a>(ranges: &mut Vec<(u32, Leaf<'a>)>, start: u32, leaf: Leaf<'a>) {
    if ranges.last().is_none_or(|(_, last)| *last != leaf) {
        ranges.push((start, leaf));
    }
}

fn tree(ranges: &[(u32, Leaf<'_>)]) -> Code {
    match ranges {
        [] => vec![ret(Action::Errno(libc::ENOSYS as u16))],
        [(_, leaf)] => leaf.emit(),
        _ => {
            let (low, high) = ranges.split_at(ranges.len() / 2);
            let pivot = high.first().map_or(0, |(start, _)| *start);
            let (low, mut high) = (tree(low), tree(high));
            let mut code = match u8::try_from(low.len()) {
                Ok(distance) => vec![jump(JGE, pivot, distance, 0)],
                // Too far for a conditional jump: hop over an unconditional one.
                Err(_) => vec![jump(JGE, pivot, 0, 1), insn(JA, low.len() as u32)],
            };
            code.extend(low);
            code.append(&mut high);
            code
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A BPF interpreter for the instructions above: the oracle.
    fn run(code: &[libc::sock_filter], arch: u32, number: u32, args: [u64; 6]) -> u32 {
        let load = |offset: u32| match offset {
            OFFSET_NUMBER => number,
            OFFSET_ARCH => arch,
            _ => args[(offset as usize - 16) / 8] as u32,
        };
        let (mut pc, mut a) = (0_usize, 0_u32);
        for _ in 0..10_000 {
            let i = code[pc];
            pc += 1;
            match i.code {
                LD => a = load(i.k),
                AND => a &= i.k,
                JEQ => pc += usize::from(if a == i.k { i.jt } else { i.jf }),
                JGE => pc += usize::from(if a >= i.k { i.jt } else { i.jf }),
                JA => pc += i.k as usize,
                RET => return i.k,
                other => panic!("instruction {other:#x}"),
            }
        }
        panic!("endless program")
    }

    fn filter() -> Filter {
        let mut rules: Vec<Rule> = (0..400)
            .map(|n| {
                Rule::plain(
                    n,
                    match n % 7 {
                        0 => Action::Notify,
                        3 => Action::Errno(1),
                        _ => Action::Allow,
                    },
                )
            })
            .collect();
        rules[41] = Rule {
            number: 41,
            cases: vec![
                Case {
                    tests: vec![Test::equals(0, 1), Test { argument: 1, mask: 0xf, value: 2 }],
                    action: Action::Notify,
                },
                Case { tests: vec![Test::equals(0, 1)], action: Action::Allow },
            ],
            otherwise: Action::Errno(97),
        };
        Filter { rules, unlisted: Action::Errno(38), foreign: Action::Notify }
    }

    #[test]
    fn every_number_gets_the_action_of_its_rule() {
        let filter = filter();
        let code = compile(&filter);
        assert!(code.len() < 4096);
        for rule in filter.rules.iter().filter(|r| r.cases.is_empty()) {
            assert_eq!(
                run(&code, NATIVE_ARCH, rule.number, [0; 6]),
                ret(rule.otherwise).k,
                "{}",
                rule.number
            );
        }
        for number in [400, 469, 1000, X32_BIT - 1] {
            assert_eq!(run(&code, NATIVE_ARCH, number, [0; 6]), ret(Action::Errno(38)).k);
        }
    }

    #[test]
    fn a_rule_says_the_same_as_the_compiled_filter() {
        let filter = filter();
        let code = compile(&filter);
        for rule in &filter.rules {
            for first in [0, 1, 0x1_0000_0001] {
                for second in [0, 2, 0x12, 0xffff_fff2] {
                    let args = [first, second, 0, 0, 0, 0];
                    assert_eq!(run(&code, NATIVE_ARCH, rule.number, args), ret(rule.action(&args)).k);
                }
            }
        }
    }

    #[test]
    fn foreign_architectures_x32_and_minus_one_are_caught_first() {
        let code = compile(&filter());
        let notify = ret(Action::Notify).k;
        assert_eq!(run(&code, 0x4000_0003, 1, [0; 6]), notify);
        assert_eq!(run(&code, NATIVE_ARCH, X32_BIT | 1, [0; 6]), notify);
        assert_eq!(run(&code, NATIVE_ARCH, u32::MAX, [0; 6]), notify);
    }

    #[test]
    fn the_first_case_that_holds_decides() {
        let code = compile(&filter());
        let with = |a: u64, b: u64| run(&code, NATIVE_ARCH, 41, [a, b, 0, 0, 0, 0]);
        assert_eq!(with(1, 0x80002), ret(Action::Notify).k);
        assert_eq!(with(1, 1), ret(Action::Allow).k);
        assert_eq!(with(16, 2), ret(Action::Errno(97)).k);
        // The kernel looks at the low word only, so high bits must not hide a value.
        assert_eq!(with(0x1_0000_0001, 1), ret(Action::Allow).k);
    }
}
