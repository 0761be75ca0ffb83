/** MessagePack in its one encoding, and types of the wire. Integers are BigInt, floats Number, bytes Buffer, maps Map. */

/** Throws an error with the rule that refuses something, unless `condition` holds. */
export function need(condition, rule, why) {
  if (!condition) throw Object.assign(new Error(why), { rule });
}

/** The fault by which `deed` was refused, or null. */
export function faultOf(deed) {
  try {
    deed();
    return null;
  } catch (fault) {
    if (fault.rule) return fault;
    throw fault;
  }
}

/** Forms whose head holds a short length: first head, number of heads. */
const SHORT = [['natural', 0x00, 128], ['map', 0x80, 16], ['array', 0x90, 16], ['text', 0xa0, 32]];
/** By head: the form, and how many bytes its length or value has. */
const LONG = new Map([
  [0xcc, ['natural', 1]], [0xcd, ['natural', 2]], [0xce, ['natural', 4]], [0xcf, ['natural', 8]], [0xd0, ['negative', 1]], [0xd1, ['negative', 2]],
  [0xd2, ['negative', 4]], [0xd3, ['negative', 8]], [0xd9, ['text', 1]], [0xda, ['text', 2]], [0xdb, ['text', 4]], [0xc4, ['bytes', 1]],
  [0xc5, ['bytes', 2]], [0xc6, ['bytes', 4]], [0xdc, ['array', 2]], [0xdd, ['array', 4]], [0xde, ['map', 2]], [0xdf, ['map', 4]],
]);
const CONSTANTS = new Map([[0xc0, null], [0xc2, false], [0xc3, true]]);

/** A whole number from 0 as `size` bytes, most significant first. */
export const natural = (value, size) => Buffer.from(value.toString(16).padStart(2 * size, '0'), 'hex');
const byte = (value) => Buffer.from([value]);
const itemsOf = (value) => (value instanceof Map ? [...value] : Object.entries(value));

function headed(form, length, content) {
  const short = SHORT.find(([name, , count]) => name === form && length < count);
  if (short) return Buffer.concat([byte(short[1] + Number(length)), content]);
  const [head, [, size]] = [...LONG].find(([, [name, bytes]]) => name === form && length < 1n << BigInt(8 * bytes));
  return Buffer.concat([byte(head), natural(length, size), content]);
}

function integer(value) {
  if (value >= 0n) return headed('natural', value, Buffer.alloc(0));
  if (value >= -32n) return byte(256 + Number(value));
  const [head, [, size]] = [...LONG].find(([, [form, bytes]]) => form === 'negative' && value >= -(1n << BigInt(8 * bytes - 1)));
  return Buffer.concat([byte(head), natural(BigInt.asUintN(8 * size, value), size)]);
}

/** The one encoding of a value; a plain object is a map of its fields in their order. */
export function encode(value) {
  const all = (values) => Buffer.concat(values.map(encode));
  if (typeof value === 'bigint') return integer(value);
  if (typeof value === 'number') return Buffer.concat([byte(0xcb), natural(new BigUint64Array(new Float64Array([value]).buffer)[0], 8)]);
  if (typeof value === 'string') return headed('text', Buffer.byteLength(value), Buffer.from(value));
  if (Buffer.isBuffer(value)) return headed('bytes', value.length, value);
  if (Array.isArray(value)) return headed('array', value.length, all(value));
  if (value === null || typeof value === 'boolean') return byte([...CONSTANTS].find(([, constant]) => constant === value)[0]);
  return headed('map', itemsOf(value).length, all(itemsOf(value).flat(1)));
}

/** The value of some bytes. Throws: they are no value, or not in its one encoding. */
export function decode(bytes) {
  let place = 0;
  const take = (size) => {
    need(size <= bytes.length - place, 'decode', 'the bytes end too early');
    place += Number(size);
    return bytes.subarray(place - Number(size), place);
  };
  const many = (length, item) => Array.from({ length: Number(length) }, item);
  const read = (depth) => {
    need(depth < 100, 'decode', 'too deep');
    const head = take(1)[0];
    if (CONSTANTS.has(head)) return CONSTANTS.get(head);
    if (head === 0xcb) return take(8).readDoubleBE();
    if (head >= 0xe0) return BigInt(head - 256);
    const short = SHORT.find(([, first, count]) => head >= first && head < first + count);
    const [form, size] = short ?? LONG.get(head) ?? [];
    need(form, 'decode', `no value begins with the byte ${head}`);
    const length = short ? BigInt(head - size) : BigInt(`0x${take(size).toString('hex')}`);
    if (form === 'natural') return length;
    if (form === 'negative') return BigInt.asIntN(8 * size, length);
    if (form === 'bytes') return take(length);
    if (form === 'text') return take(length).toString();
    if (form === 'array') return many(length, () => read(depth + 1));
    return new Map(many(length, () => [read(depth + 1), read(depth + 1)]));
  };
  const value = read(0);
  need(place === bytes.length, 'decode', 'bytes follow the value');
  need(encode(value).equals(bytes), 'canonical form', 'this is not the one encoding of the value');
  return value;
}

/** A value as JSON: bytes in hexadecimal, integers of any size, rationals as texts. */
export function json(value) {
  if (typeof value === 'bigint') return `${value}`;
  if (Buffer.isBuffer(value)) return json(value.toString('hex'));
  if (Array.isArray(value)) return `[${value.map(json)}]`;
  if (value instanceof Rational) return json(value.toString());
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const items = itemsOf(value).filter(([, item]) => item !== undefined);
  return `{${items.map(([name, item]) => `${json(Buffer.isBuffer(name) ? name : String(name))}:${json(item)}`)}}`;
}

const common = (first, second) => (second === 0n ? first : common(second, first % second));
export const leastCommonMultiple = (first, second) => (first / common(first, second)) * second;

/** An exact rational in lowest terms. */
export class Rational {
  constructor(numerator, denominator = 1n) {
    const divisor = common(numerator < 0n ? -numerator : numerator, denominator);
    Object.assign(this, { numerator: numerator / divisor, denominator: denominator / divisor });
  }
  plus({ numerator, denominator }) {
    return new Rational(this.numerator * denominator + numerator * this.denominator, this.denominator * denominator);
  }
  minus({ numerator, denominator }) { return this.plus({ numerator: -numerator, denominator }); }
  atMost(other) { return this.minus(other).numerator <= 0n; }
  equals(other) { return this.minus(other).numerator === 0n; }
  toString() { return `${this.numerator}${this.denominator === 1n ? '' : `/${this.denominator}`}`; }
}

export const ZERO = new Rational(0n);
export const sum = (amounts) => amounts.reduce((total, each) => total.plus(each), ZERO);

// A type is a function of a decoded value. It returns what the value means, or throws.
const is = (what, test) => (value) => {
  need(test(value), 'decode', `this is not ${what}`);
  return value;
};
const within = (size, low, high) => size >= low && size <= high;
export const anything = (value) => value;
export const float64 = is('a finite float', Number.isFinite);
export const int = (low, high) => is(`an integer from ${low} to ${high}`, (value) => typeof value === 'bigint' && within(value, low, high));
export const bytes = (low = 0, high = low || Infinity) => is('so many bytes', (value) => Buffer.isBuffer(value) && within(value.length, low, high));
export const text = (low = 0, high = Infinity, pattern = /^/) =>
  is(`a text of ${low} to ${high} characters`, (value) => typeof value === 'string' && within([...value].length, low, high) && pattern.test(value));
export const oneOf = (...choices) => is(`one of ${choices.join(', ')}`, (value) => choices.includes(value));
export const maybe = (type) => (value) => (value === null ? null : type(value));
const AMOUNT = text(1, 4001, /^(0|[1-9]\d{0,1999})(\/[1-9]\d{0,1999})?$/);
export const amount = (value) => new Rational(...AMOUNT(value).split('/').map(BigInt));
export const array = (type, low = 0, high = Infinity) => (value) =>
  is(`${low} to ${high} items`, (items) => Array.isArray(items) && within(items.length, low, high))(value).map((item) => type(item));
export const tuple = (...types) => (value) => array(anything, types.length, types.length)(value).map((item, at) => types[at](item));
export function rational(value) {
  const [numerator, denominator] = array(int(1n, 2n ** 32n - 1n), 2, 2)(value);
  need(common(numerator, denominator) === 1n, 'decode', 'a rational not in lowest terms');
  return new Rational(numerator, denominator);
}

/** A type for the maps whose field `tag` is `name`, another for everything else. */
export const choice = (tag, name, type, other) => (value) => (value instanceof Map && value.get(tag) === name ? type : other)(value);

/** A map of fields in their order, as a plain object. `defaults` are of fields that are left out if they have them. */
export const structure = (fields, defaults = {}) => (value) => {
  const names = Object.keys(fields);
  const due = names.filter((name) => !(value instanceof Map) || value.has(name) || !(name in defaults));
  need(value instanceof Map && [...value.keys()].join() === due.join(), 'decode', `a map of ${due} is due`);
  const needless = (name) => defaults[name] !== undefined && encode(defaults[name]).equals(encode(value.get(name)));
  need(!due.some(needless), 'canonical form', 'a field has its default, which is left out');
  return Object.fromEntries(names.map((name) => [name, value.has(name) ? fields[name](value.get(name)) : defaults[name]]));
};
