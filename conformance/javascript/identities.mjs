/** Identity cards and fingerprints. */
import { array, bytes, int, natural, need, oneOf, structure, text } from './encoding.mjs';
import { DIGEST, opened, parts, sha256, TIME, verified } from './messages.mjs';

const line = (low, high) => text(low, high, /^[^\p{C}\p{Zl}\p{Zp}]*$/u);
const SUCCESSION = structure({ previous: DIGEST, key: DIGEST, at: TIME, signature: bytes(64) });
const CARD = structure({
  version: int(1n, 1n), role: oneOf('curator', 'learner'), name: line(1, 100), organisation: line(0, 200), contact: line(0, 200), key: DIGEST,
  issued: TIME, until: TIME, successions: array(SUCCESSION, 0, 16),
});
const IDENTITY = 'expril/2 identity';
const MARKED = /-----BEGIN EXPRIL IDENTITY CARD-----\n([\w+/=\n]+)\n-----END EXPRIL IDENTITY CARD-----/g;

/** What people compare of a key. */
function fingerprint(role, key) {
  const bits = [...sha256(parts('expril/2 fingerprint', role, key))].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  const digits = bits.match(/.{5}/g).map((five) => '0123456789ABCDEFGHJKMNPQRSTVWXYZ'[parseInt(five, 2)]).join('');
  return digits.slice(0, 28).match(/.{4}/g).join('-');
}

/** The identity card in a text, with its key's fingerprint and former keys. Throws. */
export function identity(words) {
  const cards = [...words.matchAll(MARKED)].map(([, base64]) => base64);
  need(cards.length === 1 && words.length <= 65536, 'decode', 'there is not one identity card in the text');
  const data = Buffer.from(cards[0], 'base64');
  need(data.length <= 8192 && data.toString('base64').replace(/.{64}(?=.)/g, '$&\n') === cards[0], 'decode', 'base64 in another form');
  const { content } = opened(data, null, IDENTITY, { identity_card: CARD });
  const { role, key, issued, until, successions } = content;
  need(until === 0n || until > issued, 'decode', 'it ends before it begins');
  successions.forEach(({ previous, key: next, at, signature }, place) => {
    const later = successions[place + 1] ?? { previous: key, at: issued };
    need(next.equals(later.previous) && at <= later.at, 'decode', 'a chain of keys that breaks off');
    verified(previous, parts('expril/2 succession', role, previous, next, natural(at, 8)), signature);
  });
  return { ...content, label: IDENTITY, fingerprint: fingerprint(role, key), previous: successions.map(({ previous }) => previous) };
}
