/** A curator's ledger: entries, and exports of a whole chain. */
import { amount, anything, array, bytes, decode, int, maybe, natural, need, oneOf, structure, sum, text, tuple, ZERO } from './encoding.mjs';
import { DIGEST, NOTHING, SEQUENCE, sha256, TIME, verified } from './messages.mjs';
import { turnsOf } from './plans.mjs';

const FIELDS = {
  index: int(0n, 2n ** 48n), previous: DIGEST, nonce: bytes(16), kind: (kind) => oneOf(...Object.keys(RULES))(kind), at: TIME,
  learner: DIGEST, study: bytes(16), sequence: SEQUENCE, amount, own: amount, request: DIGEST, reply: DIGEST, size: TIME,
  expires_at: TIME, plan: maybe(anything), costs: array(amount), suspect: maybe(anything), note: text(),
};
const ENTRIES = {
  state: structure({ ...FIELDS, state: DIGEST, state_size: TIME }),
  lost: structure({ ...FIELDS, lost: bytes(0, 2 ** 19), spent: array(tuple(DIGEST, amount)), receipt: DIGEST }),
  plain: structure(FIELDS),
};
const EXPORT = structure({
  format: oneOf('expril ledger export 2'), blocks: array(tuple(DIGEST, bytes()), 1), replies: array(tuple(DIGEST, DIGEST)),
});
const PAIRS = array(tuple(bytes(), bytes(64)), 1, 1024);
const hex = (...pieces) => Buffer.concat(pieces).toString('hex');
const studyOf = ({ learner, study }) => hex(learner, study);

/** An entry with its hash and the signed bytes of its head. */
export function entryOf(data) {
  const value = decode(data);
  const form = ['state', 'lost'].find((name) => value instanceof Map && value.has(name)) ?? 'plain';
  const entry = ENTRIES[form](value);
  const hash = sha256('expril/2 ledger entry', data);
  return { ...entry, value, hash, signed: Buffer.concat([Buffer.from('expril/2 ledger head'), natural(entry.index, 8), hash]) };
}

/** By kind of entry: enters it in the book, and says whether it is lawful at its place. */
const RULES = {
  open: (book, { index }) => index === 0n,
  start: (book, { note }) => (book.terms ??= note) === note,
  data: (book, { note }) => /^[0-9a-f]{32}$/.test(note),
  plug_ins: (book, { note }) => /^(\S+ \S+ sha256:[0-9a-f]{64}(\n(?!$)|$))*$/.test(note),
  enrol: (book, { learner, note }) => note !== '' && !book.names.has(hex(learner)) && book.names.set(hex(learner), note),
  reserve(book, entry) {
    const { study, plan, costs } = entry;
    if (book.halted || !plan || book.studies.has(studyOf(entry)) || study.equals(NOTHING.subarray(16))) return false;
    need(sum(costs).equals(entry.amount), 'budget', 'costs that do not sum to what is reserved');
    const places = turnsOf(plan).flatMap((turns, place) => Array(turns).fill(place));
    book.studies.set(studyOf(entry), { left: [...costs], places, next: 1n });
    return places.at(-1) === costs.length - 1 && owe(book, entry);
  },
  charge(book, entry) {
    const study = book.studies.get(studyOf(entry));
    const place = study?.places[Number(entry.sequence) - 1];
    if (book.halted || place === undefined || study.ended || study.asked || entry.sequence !== study.next) return false;
    need(entry.amount.atMost(study.left[place]), 'budget', 'more is charged than is left of the query');
    study.left[place] = study.left[place].minus(entry.amount);
    Object.assign(study, { asked: true, next: study.next + 1n });
    spend(book, entry.learner, entry.amount, entry.amount);
    return owe(book, entry);
  },
  answered(book, entry) {
    const asked = book.owed.get(hex(entry.request));
    const same = asked && studyOf(asked) === studyOf(entry) && asked.sequence === entry.sequence;
    if (!same || (entry.state && asked.kind !== 'charge')) return false;
    if (asked.kind === 'charge') book.studies.get(studyOf(entry)).asked = false;
    book.replies.set(hex(entry.request), entry);
    return book.owed.delete(hex(entry.request));
  },
  close: (book, entry) => ended(book, entry) && owe(book, entry),
  expire: (book, entry) => ended(book, entry),
  evict(book, entry) {
    const kept = [...book.replies].filter(([, reply]) => studyOf(reply) === studyOf(entry));
    kept.forEach(([request]) => book.replies.delete(request));
    return kept.length > 0 && book.studies.get(studyOf(entry)).ended;
  },
  approve: (book, { request }) => !book.requests.has(hex(request)) && !book.declined.has(hex(request)),
  decline: (book, entry) => RULES.approve(book, entry) && book.declined.add(hex(entry.request)),
  halt(book, { suspect }) {
    need(!suspect, 'unsupported', 'ledgers that may have lost entries');
    return (book.halted = true);
  },
  resume(book, { learner, amount: total, own }) {
    const lawful = book.halted;
    book.halted = false;
    spend(book, learner, total, own);
    return lawful;
  },
  handover: (book, { learner }) => !learner.equals(NOTHING) && !book.keys.some((key) => key.equals(learner)) && book.keys.push(learner),
};

function spend(book, learner, total, own) {
  const name = book.names.get(hex(learner));
  book.total = book.total.plus(total);
  book.spent.set(name, (book.spent.get(name) ?? ZERO).plus(own));
}

function owe(book, entry) {
  const isNew = !book.requests.has(hex(entry.request));
  book.requests.add(hex(entry.request));
  book.owed.set(hex(entry.request), entry);
  return isNew;
}

function ended(book, entry) {
  const study = book.studies.get(studyOf(entry));
  if (!study || study.ended) return false;
  need(entry.amount.equals(sum(study.left)), 'budget', 'another refund than what is left');
  return (study.ended = true);
}

function enter(book, data, signature) {
  const entry = entryOf(data);
  const { index, kind, previous, hash, signed } = entry;
  need(index === book.entries && previous.equals(book.head), 'state', `entry ${book.entries} does not follow`);
  verified(book.keys.at(-1), signed, signature);
  need((kind === 'open') === (index === 0n) && RULES[kind](book, entry), 'state', `entry ${index}, ${kind}, is not lawful here`);
  Object.assign(book, { entries: index + 1n, head: hash });
}

/** What an export says: entries, head, total, spent by learner's name, names by key, held replies. Throws at the first fault. */
export function openedExport(data, curator) {
  const { blocks, replies } = EXPORT(decode(data));
  const book = {
    entries: 0n, head: sha256('expril/2 ledger'), keys: [curator], halted: false, total: ZERO, spent: new Map(), names: new Map(),
    studies: new Map(), owed: new Map(), requests: new Set(), declined: new Set(), replies: new Map(), held: replies.length,
  };
  for (const [digest, pairs] of blocks) {
    need(sha256(pairs).equals(digest), 'decode', 'a damaged block');
    PAIRS(decode(pairs)).forEach(([entry, signature]) => enter(book, entry, signature));
  }
  const rising = replies.every(([key], place) => place === 0 || replies[place - 1][0].compare(key) < 0);
  need(rising, 'canonical form', 'replies in another order');
  const held = new Map(replies.map(([key, digest]) => [hex(key), digest]));
  const kept = [...book.replies].every(([request, { reply }]) => held.get(request)?.equals(reply));
  need(kept, 'state', 'a reply that is kept is missing, or another one');
  return book;
}
