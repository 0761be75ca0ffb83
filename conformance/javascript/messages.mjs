/** Messages, receipts and schemas; their signatures and digests. */
import { createHash, createPrivateKey, createPublicKey, sign, verify } from 'node:crypto';
import { amount, anything, array, bytes, choice, decode, encode, float64, int, maybe, natural, need, oneOf } from './encoding.mjs';
import { structure, text, tuple } from './encoding.mjs';

export const LABEL = 'expril/2';
export const NOTHING = Buffer.alloc(32);
export const [NAME, DIGEST, TIME, SEQUENCE] = [text(1, 200), bytes(32), int(0n, 2n ** 40n), int(0n, 2n ** 20n)];
const TEXT = text(0, 2000);
const ABSENT = { units: undefined, days_since: undefined, missing: undefined };
const NUMERIC = structure({
  kind: anything, name: NAME, lower: float64, upper: float64, description: TEXT, units: text(1, 100),
  days_since: text(10, 10, /^\d{4}-\d\d-\d\d$/), missing: array(anything, 1, 100),
}, ABSENT);
const LEVELS = { kind: oneOf('categorical'), name: NAME, levels: array(NAME, 1, 1000), description: TEXT, missing: array(NAME, 1, 100) };
const ATTRIBUTE = choice('kind', 'numeric', NUMERIC, structure(LEVELS, ABSENT));

/** What the records of a curator look like. */
export const SCHEMA = structure({
  attributes: array(ATTRIBUTE, 1, 10000), label: NAME, classes: array(NAME, 0, 256), label_bounds: maybe(tuple(float64, float64)),
  label_units: maybe(text(1, 100)), outcomes: array(ATTRIBUTE, 0, 100), time_to_event: anything,
}, { classes: [], label_bounds: null, label_units: null, outcomes: [], time_to_event: null });

/** Codes of refusals: those that may pass, and those that are final. */
const PASSING = 'not_yet_valid awaiting_approval ledger_rolled_back halted store_full busy too_many_requests unavailable'.split(' ');
const FINAL = `malformed too_large unknown_sender bad_signature wrong_recipient expired unknown_study study_closed study_expired out_of_order
  changed_content unknown_kind kind_not_allowed not_in_plan bad_query bad_plan over_limit over_budget below_least_cost declined
  too_many_studies terms_changed answer_gone state_gone`.split(/\s+/);
const message = (fields) => structure({
  version: int(2n, 2n), study: bytes(16), sender: DIGEST, recipient: DIGEST, sequence: SEQUENCE, answers: DIGEST, expires_at: TIME, ...fields,
});
const amountOrEmpty = (value) => (value === '' ? null : amount(value));
const receipt = bytes(0, 16384);

/** By type: how a message's payload is read. */
export const MESSAGES = {
  card_request: message({}),
  study_proposal: message({ plan: anything, purpose: text(0, 1000), newest_receipt: receipt }),
  query: message({ kind: NAME, body: bytes() }),
  study_close: message({}),
  card: message({
    name: NAME, schema: SCHEMA, unit: maybe(NAME), most_records_per_unit: int(1n, 2n ** 20n), relation: NAME,
    round_size: maybe(int(1n, 2n ** 40n)), limits: anything, cap: amount, least_cost: amount,
  }),
  study_accepted: message({ cost: amount, reserved_until: TIME, receipt }),
  release: message({ kind: NAME, body: bytes(), receipt }),
  study_closed: message({ refunded: amount, receipt }),
  refusal: message({
    code: oneOf(...FINAL, ...PASSING), explanation: TEXT, field: TEXT, limit: TEXT, remaining: amountOrEmpty, scale_factor: amountOrEmpty,
  }),
};
const RECEIPT = structure({
  curator: DIGEST, learner: DIGEST, study: bytes(16), sequence: SEQUENCE, request: DIGEST, release: DIGEST, charged: amount,
  spent_by_study: amount, spent_by_learner: amount, ledger_head: DIGEST, position: bytes(1052), issued_at: TIME,
});
const ENVELOPE = structure({ label: text(0, 100), type: text(0, 40), payload: bytes(), signature: bytes(64) });

/** A refusal's code, whether it is final, and whether it rules its request out. */
export function meaning({ recipient, code }) {
  const final = !recipient.equals(NOTHING) && FINAL.includes(code);
  return { code, final, rules_out: final && code !== 'answer_gone' };
}

/** SHA-256 of bytes and texts, one after the other. */
export const sha256 = (...pieces) => pieces.reduce((hash, piece) => hash.update(piece), createHash('sha256')).digest();

/** Byte strings and texts as one, each behind its length. */
export const parts = (...pieces) => Buffer.concat(pieces.flatMap((piece) => [natural(Buffer.byteLength(piece), 8), Buffer.from(piece)]));

const PRIME = 2n ** 255n - 19n;
const SMALL_ORDER = [
  ...[0n, 1n, PRIME - 1n, PRIME, PRIME + 1n].map((value) => natural(value, 32).reverse().toString('hex')),
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05', 'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
];
const der = (type, head, key) => ({ key: Buffer.concat([Buffer.from(head, 'hex'), key]), format: 'der', type });
const privateKey = (seed) => createPrivateKey(der('pkcs8', '302e020100300506032b657004220420', seed));

/** The public key of a seed. */
export const publicOf = (seed) => createPublicKey(privateKey(seed)).export({ format: 'der', type: 'spki' }).subarray(-32);

/** A public key, unless it is of small order. */
export function accepted(key) {
  const point = Buffer.concat([key.subarray(0, 31), Buffer.from([key[31] & 0x7f])]);
  need(!SMALL_ORDER.includes(point.toString('hex')), 'signature', 'a public key of small order');
  return key;
}

/** Throws unless `key` signed the bytes. */
export function verified(key, signed, signature) {
  const fits = verify(null, signed, der('spki', '302a300506032b6570032100', accepted(key)), signature);
  need(fits, 'signature', 'another key signed this, or other bytes');
}

/** The envelope of a message whose fields are in their order. */
export function sealed(seed, type, fields) {
  const payload = encode(fields);
  return encode({ label: LABEL, type, payload, signature: sign(null, parts(LABEL, type, payload), privateKey(seed)) });
}

/** An envelope's fields, and `content`, which its payload says by one of the types. No signature is looked at. */
export function unsealed(data, types = MESSAGES) {
  need(data.length <= 2 ** 24, 'decode', 'longer than any envelope');
  const envelope = ENVELOPE(decode(data));
  need(!envelope.label.startsWith('expril/1') && Object.hasOwn(types, envelope.type), 'decode', 'a label or type that is not due');
  return { ...envelope, content: types[envelope.type](decode(envelope.payload)) };
}

/** The same with its signed bytes and digests. Throws unless the signer, by default its own `key`, sealed it under the label. */
export function opened(data, signer, label, types = MESSAGES) {
  const envelope = unsealed(data, types);
  const { type, payload, content } = envelope;
  const signed = parts(envelope.label, type, payload);
  need(envelope.label === label, 'signature', `the label is ${envelope.label}`);
  verified(signer ?? content.key, signed, envelope.signature);
  return { ...envelope, signed, digest: sha256(data), request: signer && sha256(parts('expril/2 request', signer, type, payload)) };
}

/** What a receipt's envelope says. Throws unless the curator sealed it under the label. */
export function openedReceipt(data, curator, label) {
  const { content } = opened(data, curator, label, { receipt: RECEIPT });
  need(content.curator.equals(curator), 'signature', 'the receipt names another curator than its signer');
  return content;
}
