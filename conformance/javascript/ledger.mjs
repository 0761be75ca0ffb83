/** A curator's ledger: entries, and exports of a whole chain. */
import { amount, anything, array, bytes, decode, int, maybe, natural, need, oneOf, structure, sum, text, tuple, ZERO } from './encoding.mjs';
import { DIGEST, NOTHING, SEQUENCE, sha256, TIME, verified } from './messages.mjs';
import { turnsOf } from './plans.mjs';

const KINDS = 'open start enrol data plug_ins reserve charge answered close expire evict approve decline halt resume handover'.split(' ');
const ENTRY = structure({
  index: int(0n, 2n ** 48n), previous: DIGEST, nonce: bytes(16), kind: oneOf(...KINDS), at: TIME, learner: DIGEST, study: bytes(16),
  sequence: SEQUENCE, amount, own: amount, request: DIGEST, reply: DIGEST, size: TIME, expires_at: TIME, plan: maybe(anything), costs: array(amount),
  suspect: maybe(anything), note: text(), state: DIGEST, state_size: TIME, lost: anything, spent: anything, receipt: anything,
}, { state: undefined, state_size: undefined, lost: undefined, spent: undefined, receipt: undefined });
const [BLOCKS, PAIRS] = [array(tuple(DIGEST, bytes()), 1), array(tuple(bytes(), bytes(64)), 1, 1024)];
const EXPORT = structure({ format: oneOf('expril ledger export 2'), blocks: BLOCKS, replies: array(tuple(DIGEST, DIGEST)) });
const hex = (...pieces) => Buffer.concat(pieces).toString('hex');
const studyOf = ({ learner, study }) => hex(learner, study);

/** An entry with its value, its hash and the signed bytes of its head. Throws unless the key signed it. */
export function entryOf(data, signature, key) {
  const value = decode(data);
  const entry = ENTRY(value);
  const hash = sha256('expril/2 ledger entry', data);
  const signed = Buffer.concat([Buffer.from('expril/2 ledger head'), natural(entry.index, 8), hash]);
  verified(key, signed, signature);
  return { ...entry, value, hash, signed };
}

/** By kind of entry: enters it in the book, and says whether it is lawful at its place. Others are lawful everywhere. */
const RULES = {
  start: (book, { note }) => (book.terms ??= note) === note,
  data: (book, { note }) => /^[0-9a-f]{32}$/.test(note),
  plug_ins: (book, { note }) => /^(\S+ \S+ sha256:[0-9a-f]{64}(\n(?!$)|$))*$/.test(note) && note === note.split('\n').sort().join('\n'),
  enrol: (book, { learner, note }) => /^.{1,200}$/su.test(note) && !book.enrolled.has(hex(learner)) && book.enrolled.add(hex(learner)),
  approve: (book, { request }) => !request.equals(NOTHING) && !book.requests.has(hex(request)) && !book.declined.has(hex(request)),
  decline: (book, entry) => RULES.approve(book, entry) && book.declined.add(hex(entry.request)),
  reserve(book, entry) {
    if (entry.learner.equals(NOTHING) || !entry.plan || book.studies.has(studyOf(entry)) || entry.study.equals(NOTHING.subarray(16))) return false;
    need(sum(entry.costs).equals(entry.amount), 'budget', 'costs that do not sum to what is reserved');
    const places = turnsOf(entry.plan).flatMap((turns, place) => Array(turns).fill(place));
    book.studies.set(studyOf(entry), { left: [...entry.costs], places, next: 1n });
    return places.at(-1) === entry.costs.length - 1 && owe(book, entry);
  },
  charge(book, entry) {
    const study = book.studies.get(studyOf(entry));
    const place = study?.places[Number(entry.sequence) - 1];
    if (place === undefined || study.ended || study.asked || entry.sequence !== study.next) return false;
    need(entry.amount.atMost(study.left[place]), 'budget', 'more is charged than is left of the query');
    study.left[place] = study.left[place].minus(entry.amount);
    Object.assign(study, { asked: true, next: study.next + 1n });
    book.total = book.total.plus(entry.amount);
    book.spent.set(hex(entry.learner), (book.spent.get(hex(entry.learner)) ?? ZERO).plus(entry.amount));
    return owe(book, entry);
  },
  answered(book, entry) {
    const asked = book.owed.get(hex(entry.request));
    if (!asked || studyOf(asked) !== studyOf(entry) || asked.sequence !== entry.sequence || (entry.state && asked.kind !== 'charge')) return false;
    if (asked.kind === 'charge') book.studies.get(studyOf(entry)).asked = false;
    book.replies.set(hex(entry.request), entry.reply);
    return book.owed.delete(hex(entry.request));
  },
  close: (book, entry) => RULES.expire(book, entry) && owe(book, entry),
  expire(book, entry) {
    const study = book.studies.get(studyOf(entry));
    if (!study || study.ended) return false;
    need(entry.amount.equals(sum(study.left)), 'budget', 'another refund than what is left');
    return (study.ended = true);
  },
  handover: (book, { learner }) => !learner.equals(NOTHING) && !book.keys.some((key) => key.equals(learner)) && book.keys.push(learner),
};

/** Enters that an entry has an effect, and wants its reply. */
function owe(book, entry) {
  book.owed.set(hex(entry.request), entry);
  return !book.requests.has(hex(entry.request)) && book.requests.add(hex(entry.request));
}

function enter(book, data, signature) {
  const entry = entryOf(data, signature, book.keys.at(-1));
  const { index, kind, previous, hash } = entry;
  need(index === book.entries && previous.equals(book.head), 'state', `entry ${book.entries} does not follow`);
  need(!['evict', 'halt', 'resume'].includes(kind), 'unsupported', `ledgers with an entry of the kind ${kind}`);
  need((kind === 'open') === (index === 0n) && (RULES[kind]?.(book, entry) ?? true), 'state', `entry ${index}, ${kind}, is not lawful here`);
  Object.assign(book, { entries: index + 1n, head: hash });
}

/** What an export says: entries, head, total, spent by the learners' keys, how many replies. Throws at the first fault. */
export function openedExport(data, curator) {
  const { blocks, replies } = EXPORT(decode(data));
  const sets = { enrolled: new Set([hex(NOTHING)]), declined: new Set(), requests: new Set() };
  const maps = { spent: new Map(), studies: new Map(), owed: new Map(), replies: new Map() };
  const book = { entries: 0n, head: sha256('expril/2 ledger'), keys: [curator], total: ZERO, ...sets, ...maps };
  for (const [digest, pairs] of blocks) {
    need(sha256(pairs).equals(digest), 'decode', 'a damaged block');
    PAIRS(decode(pairs)).forEach(([entry, signature]) => enter(book, entry, signature));
  }
  need(replies.every(([key], place) => place === 0 || replies[place - 1][0].compare(key) < 0), 'canonical form', 'replies in another order');
  const held = new Map(replies.map(([key, digest]) => [hex(key), digest]));
  for (const [request, reply] of book.replies) need(held.get(request)?.equals(reply), 'state', 'a reply is missing, or another one');
  return { entries: book.entries, head: book.head, total: book.total, spent: book.spent, replies: replies.length };
}
