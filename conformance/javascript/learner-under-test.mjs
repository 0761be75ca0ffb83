/** The learner as `conformance/README.md` wants it: a JSON object in each line, and one back. */
import { existsSync, lstatSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { decode, encode, faultOf, json, need, ZERO } from './encoding.mjs';
import { fingerprint, identity } from './identities.mjs';
import { entryOf, openedExport } from './ledger.mjs';
import { accepted, meaning, MESSAGES, opened, openedReceipt, publicOf, SCHEMA, sealed, unsealed, verified } from './messages.mjs';
import { numbersOf, planOf, sizeOf } from './plans.mjs';
import { checkReceipt, Study } from './study.mjs';

const bytes = (text) => Buffer.from(text, 'hex');

/** By what is read: what is found in it. */
const READERS = {
  key: ({ seed }) => ({ public: publicOf(bytes(seed)) }),
  public_key: ({ public: key }) => ({ public: accepted(bytes(key)) }),
  value: ({ bytes: data }) => ({ value: decode(bytes(data)) }),
  envelope({ bytes: data, signer, label }) {
    const { content, request, ...envelope } = opened(bytes(data), bytes(signer), label);
    return { ...envelope, request_digest: request, message: decode(envelope.payload) };
  },
  identity({ text }) {
    const { successions, ...card } = identity(text);
    const previous = successions.map((step) => step.previous);
    return { ...card, label: 'expril/2 identity', fingerprint: fingerprint(card.role, card.key), previous };
  },
  plan({ bytes: data, records }) {
    const value = decode(bytes(data));
    const { queries, costs, cost } = planOf(value, BigInt(records));
    return { cost, costs, turns: queries.length, value };
  },
  answer({ kind, schema, planned, body, release }) {
    need(kind === 'counts', 'unsupported', kind);
    const { queries: [query], cost } = planOf(new Map([['queries', [decode(bytes(planned))]]]), 1n);
    const size = sizeOf(query, bytes(body), SCHEMA(decode(bytes(schema))));
    need(!Number.isNaN(size), 'unsupported', 'partitions by a feature map');
    return { cost, numbers: numbersOf(bytes(release), size) };
  },
  refusal({ payload }) {
    const refusal = MESSAGES.refusal(decode(bytes(payload)));
    const { final, rulesOut } = meaning(refusal);
    return { code: refusal.code, final, rules_out: rulesOut };
  },
  receipt({ receipt: data, curator, label, request, release }) {
    const receipt = openedReceipt(bytes(data), bytes(curator), label);
    const { sender } = unsealed(bytes(request)).content;
    checkReceipt(receipt, opened(bytes(request), sender, 'expril/2'), release && bytes(release));
    return receipt;
  },
  transcript({ curator, learner, label, envelopes }) {
    const study = new Study(bytes(learner), bytes(curator), label);
    envelopes.forEach((data) => study.add(bytes(data)));
    if (study.stopped?.rule) throw study.stopped;
    const { head, state, claimed, spent, atMost, answers, refusals } = study;
    return { head, state, claimed, spent, at_most: atMost, releases: answers.length, refusals };
  },
  entry({ bytes: data, signature, curator }) {
    const { kind, hash, signed, value } = entryOf(bytes(data));
    verified(bytes(curator), signed, bytes(signature));
    return { kind, hash, signed, value };
  },
  export({ bytes: data, curator }) {
    const { entries, head, total, names, spent, held } = openedExport(bytes(data), bytes(curator));
    return { entries, head, total, spent: new Map([...names].map(([key, name]) => [key, spent.get(name) ?? ZERO])), replies: held };
  },
};

/** The next request of a study, if there is one. */
function nextRequest({ state, card, stopped, next, last, learner, curator }, told, now) {
  const message = (type, sequence, fields = {}) => sealed(bytes(told.seed), type, {
    version: 2n, study: bytes(told.study), sender: learner, recipient: curator, sequence, answers: last,
    expires_at: BigInt(now + told.lifetime), ...fields,
  });
  const { plan, purpose, newest_receipt: newest, queries } = told;
  if (state === 'new' && !card) return message('card_request', 0n);
  if (state === 'new') return message('study_proposal', 0n, { plan: decode(bytes(plan)), purpose, newest_receipt: bytes(newest) });
  if (state !== 'open') return null;
  const query = stopped ? undefined : queries[Number(next) - 1];
  return query ? message('query', next, { kind: query.kind, body: bytes(query.body) }) : message('study_close', next);
}

function write(path, content) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.new`, content);
  renameSync(`${path}.new`, path);
}

/** One step of a study over a folder. What was sent and taken is kept in its file `transcript`. */
function step({ folder, now }) {
  const told = JSON.parse(readFileSync(join(folder, 'study.json')));
  const study = new Study(publicOf(bytes(told.seed)), bytes(told.curator), told.label, bytes(told.newest_receipt));
  const transcript = join(folder, 'transcript');
  const kept = existsSync(transcript) ? decode(readFileSync(transcript)) : [];
  const add = (data) => {
    study.add(data);
    if (!kept.some((each) => each.equals(data))) kept.push(data);
    write(transcript, encode(kept));
  };
  const pathOf = (part) => join(folder, told.curator, part, `${study.pending.digest.toString('hex')}.envelope`);
  kept.forEach((data) => study.add(data));
  const fault = faultOf(() => {
    const file = study.pending && existsSync(pathOf('replies')) && lstatSync(pathOf('replies'));
    if (!file || !file.isFile() || file.size > 2 ** 24) return;
    const reply = readFileSync(pathOf('replies'));
    need(unsealed(reply).content.answers.equals(study.pending.digest), 'state', 'a reply to another request');
    add(reply);
  });
  const request = study.pending ? null : nextRequest(study, told, now);
  if (request) add(request);
  if (study.pending && !existsSync(pathOf('requests'))) write(pathOf('requests'), kept.at(-1));
  const { state, pending, claimed, spent, atMost, answers, newestReceipt } = study;
  const found = { refused: fault?.rule ?? '', why: fault?.message ?? '', waits: pending?.digest ?? '', newest_receipt: newestReceipt };
  return { state, claimed, spent, at_most: atMost, answers, ...found };
}

/** The answer to one line. */
function answer({ do: deed, read, given, ...line }) {
  if (deed === 'step') return step(line);
  if (deed !== 'read' || !READERS[read]) return { unsupported: read ?? deed };
  let taken;
  const fault = faultOf(() => { taken = READERS[read](given); });
  if (fault?.rule === 'unsupported') return { unsupported: fault.message };
  return fault ? { refused: fault.rule, why: fault.message } : { taken };
}

for await (const line of createInterface({ input: process.stdin })) process.stdout.write(`${json(answer(JSON.parse(line)))}\n`);
