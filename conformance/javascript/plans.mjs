/** Plans, their exact costs, and the questions and numbers of `counts`. */
import { anything, array, bytes, choice, decode, float64, int, leastCommonMultiple, maybe, need, Rational, rational } from './encoding.mjs';
import { oneOf, structure, sum, text } from './encoding.mjs';
import { NAME } from './messages.mjs';

const ofTwo = (width) => ({ classes }) => (classes.length === 2 ? width : 0);
/** By release: how many numbers a cell has (0: none with such a schema), and whether there is a hypothesis. */
const RELEASES = {
  mass: { width: () => 1, hypothesis: false },
  class_counts: { width: ({ classes }) => classes.length, hypothesis: false },
  signed_error: { width: ofTwo(1), hypothesis: true },
  error_correct: { width: ofTwo(2), hypothesis: true },
};
const MANY = int(1n, 100000n);
const QUERY = structure({ kind: anything, release: text(0, 100), partitions: MANY, scale: rational, steps: MANY }, { steps: 1n });

/** The turns of each query of a plan, whatever their kinds. */
export function turnsOf(plan) {
  const turns = structure({ queries: array(anything, 1, 1000) })(plan).queries.map((query) => {
    need(query instanceof Map && [...query.keys()][0] === 'kind', 'decode', 'a query without its kind');
    return Number(MANY(query.get('turns') ?? 1n));
  });
  need(turns.reduce((total, some) => total + some) <= 100000, 'decode', 'more than 100,000 turns');
  return turns;
}

/** A plan of `counts`: its value, queries, turns and exact costs, where a unit has at most `most` records. */
export function planOf(plan, most) {
  const turns = turnsOf(plan);
  need(plan.get('queries').every((query) => query.get('kind') === 'counts'), 'content', 'a kind that is not known here');
  const queries = plan.get('queries').map(QUERY);
  const known = ({ release, steps }) => Object.hasOwn(RELEASES, release) && steps === 1n;
  need(queries.every(known), 'content', 'a release that is not known here, or has no steps');
  const costs = queries.map(({ partitions, scale }) => new Rational(most * partitions * scale.denominator, scale.numerator));
  const shared = costs.reduce((least, { denominator }) => leastCommonMultiple(least, denominator), 1n);
  const large = [shared, sum(costs).numerator, ...costs.map(({ numerator }) => numerator)];
  need(large.every((each) => each < 2n ** 32n), 'budget', 'a cost beyond 32 bits');
  return { value: plan, queries, turns: turns.length, costs, cost: sum(costs) };
}

const BINS = structure({ type: anything, attribute: NAME, edges: array(float64, 0, 100000) });
const PARTITION = choice('type', 'feature_bins', BINS, () => null); // null: a partition of another type
const HYPOTHESIS = choice('type', 'constant', structure({ type: anything, predicted: oneOf(0n, 1n) }), anything);
const BODY = structure({
  partitions: array(PARTITION, 1, 100000), hypothesis: maybe(HYPOTHESIS), most_squared_error: maybe(int(1n, 2n ** 24n)),
}, { most_squared_error: null });

function cellsOf({ attribute, edges }, { attributes }) {
  const variable = attributes.find(({ name }) => name === attribute);
  const rising = edges.every((edge, place) => place === 0 || edges[place - 1] < edge);
  need(variable && (variable.levels ? edges.length === 0 : rising), 'content', `no attribute ${attribute} of such edges`);
  return (variable.levels ?? edges).length + 2;
}

/** How many numbers answer the body of a planned query; NaN: it has partitions whose cells are not known here. */
export function sizeOf({ release, partitions }, body, schema) {
  const asked = BODY(decode(body));
  const width = RELEASES[release].width(schema);
  need(BigInt(asked.partitions.length) === partitions, 'state', 'another number of partitions than planned');
  const asIs = asked.most_squared_error === null && (asked.hypothesis !== null) === RELEASES[release].hypothesis;
  need(width > 0 && asIs, 'content', 'a hypothesis, clip or label that the release has not');
  return width * asked.partitions.reduce((total, partition) => total + (partition ? cellsOf(partition, schema) : NaN), 0);
}

/** The numbers of a release. Throws: it has not `size` of them. */
export function numbersOf(release, size) {
  const { counts, ratios } = structure({ counts: bytes(), ratios: bytes() })(decode(release));
  const whole = Number.isNaN(size) ? Math.floor(counts.length / 8) : size;
  need(counts.length === 8 * whole && ratios.length === 0, 'content', `not ${size} numbers`);
  return Array.from({ length: whole }, (_, place) => counts.readBigInt64LE(8 * place));
}
