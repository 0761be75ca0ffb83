/** The learner as `conformance/README.md` wants it: a JSON object in each line, and one back. */
import { existsSync, lstatSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { decode, encode, faultOf, json, need } from './encoding.mjs';
import { identity } from './identities.mjs';
import { entryOf, openedExport } from './ledger.mjs';
import { accepted, LABEL, meaning, MESSAGES, opened, openedReceipt, publicOf, SCHEMA, sealed, unsealed } from './messages.mjs';
import { numbersOf, planOf, sizeOf } from './plans.mjs';
import { checkReceipt, Study } from './study.mjs';

/** By what is read: what is found in it. Bytes are Buffers here. */
const READERS = {
  key: ({ seed }) => ({ public: publicOf(seed) }),
  public_key: ({ public: key }) => ({ public: accepted(key) }),
  value: ({ bytes }) => ({ value: decode(bytes) }),
  identity: ({ text }) => identity(text),
  plan: ({ bytes, records }) => planOf(decode(bytes), BigInt(records)),
  refusal: ({ payload }) => meaning(MESSAGES.refusal(decode(payload))),
  entry: ({ bytes, signature, curator }) => entryOf(bytes, signature, curator),
  export: ({ bytes, curator }) => openedExport(bytes, curator),
  envelope({ bytes, signer, label }) {
    const { request, content, ...envelope } = opened(bytes, signer, label);
    return { ...envelope, request_digest: request, message: decode(envelope.payload) };
  },
  answer({ kind, schema, planned, body, release }) {
    need(kind === 'counts', 'unsupported', kind);
    const { queries: [query], cost } = planOf(new Map([['queries', [decode(planned)]]]), 1n);
    const size = sizeOf(query, body, SCHEMA(decode(schema)));
    need(!Number.isNaN(size), 'unsupported', 'partitions other than bins of one attribute');
    return { cost, numbers: numbersOf(release, size) };
  },
  receipt({ receipt, curator, label, request, release }) {
    const found = openedReceipt(receipt, curator, label);
    checkReceipt(found, opened(request, unsealed(request).content.sender, LABEL), release.length ? release : null);
    return found;
  },
  transcript({ curator, learner, label, envelopes }) {
    const study = new Study(learner, curator, label);
    envelopes.forEach((envelope) => study.add(envelope));
    if (study.stopped?.rule) throw study.stopped;
    return { ...study.standing, head: study.head, releases: study.answers.length, refusals: study.refusals };
  },
};

/** What a line gives, with its hexadecimal texts as bytes. */
function given(value, name) {
  if (Array.isArray(value)) return value.map((item) => given(item, name));
  if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, given(item, key)]));
  return typeof value === 'string' && !['text', 'label', 'kind', 'purpose'].includes(name) ? Buffer.from(value, 'hex') : value;
}

/** The next request of a study, if there is one. */
function nextRequest({ state, card, stopped, next, last, learner, curator }, told, now) {
  const { plan, purpose, newest_receipt, queries, study, seed, lifetime } = told;
  const message = (type, sequence, fields = {}) => sealed(seed, type, {
    version: 2n, study, sender: learner, recipient: curator, sequence, answers: last, expires_at: BigInt(now + lifetime), ...fields,
  });
  if (state === 'new') return card ? message('study_proposal', 0n, { plan: decode(plan), purpose, newest_receipt }) : message('card_request', 0n);
  if (state !== 'open') return null;
  const query = stopped ? undefined : queries[Number(next) - 1];
  return query ? message('query', next, query) : message('study_close', next);
}

function write(path, content) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.new`, content);
  renameSync(`${path}.new`, path);
}

/** One step of a study over a folder. What was sent and taken is kept in its file `transcript`. */
function step({ folder, now }) {
  const told = given(JSON.parse(readFileSync(join(folder, 'study.json'))));
  const study = new Study(publicOf(told.seed), told.curator, told.label, told.newest_receipt);
  const transcript = join(folder, 'transcript');
  const kept = existsSync(transcript) ? decode(readFileSync(transcript)) : [];
  const pathOf = (part) => join(folder, told.curator.toString('hex'), part, `${study.pending.digest.toString('hex')}.envelope`);
  const add = (envelope) => {
    study.add(envelope);
    if (!kept.some((each) => each.equals(envelope))) kept.push(envelope);
    write(transcript, encode(kept));
  };
  kept.forEach((envelope) => study.add(envelope));
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
  const found = { refused: fault?.rule ?? '', why: fault?.message ?? '', waits: study.pending?.digest ?? '' };
  return { ...study.standing, ...found, answers: study.answers, newest_receipt: study.newestReceipt };
}

/** The answer to one line. */
function answer({ do: deed, read, given: data, ...line }) {
  if (deed === 'step') return step(line);
  if (deed !== 'read' || !READERS[read]) return { unsupported: read ?? deed };
  let taken;
  const fault = faultOf(() => { taken = READERS[read](given(data)); });
  if (fault?.rule === 'unsupported') return { unsupported: fault.message };
  return fault ? { refused: fault.rule, why: fault.message } : { taken };
}

for await (const line of createInterface({ input: process.stdin })) process.stdout.write(`${json(answer(JSON.parse(line)))}\n`);
