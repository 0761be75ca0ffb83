/** Plans, their exact costs, and the questions and numbers of `counts`. */
import { anything, array, bytes, decode, float64, int, leastCommonMultiple, maybe, need } from './encoding.mjs';
import { oneOf, Rational, rational, structure, sum, tagged, text } from './encoding.mjs';
import { NAME } from './messages.mjs';

const binary = ({ classes }) => classes.length === 2;
const classes = (schema) => schema.classes.length > 0;
const number = (schema) => schema.label_bounds !== null;
/** By release: numbers of a cell, the label that it needs, and whether it has a hypothesis, planned steps, a clip, outcomes. */
const RELEASES = {
  mass: { width: 1 },
  signed_error: { width: 1, label: binary, hypothesis: true },
  error_correct: { width: 2, label: binary, hypothesis: true },
  class_counts: { width: 0, label: classes }, // as many as there are classes
  label_total: { width: 2, label: number, steps: true },
  squared_error: { width: 2, label: number, hypothesis: true, steps: true, clip: true },
  error_sums: { width: 3, label: number, hypothesis: true, steps: true, clip: true },
  outcome_counts: { width: 1, outcomes: true },
};
const OTHER_KINDS = ['secure_counts', 'holdout', 'sample', 'model', 'statistic'];
const QUERY = structure({
  kind: anything, release: text(0, 100), partitions: int(1n, 100000n), scale: rational, steps: int(1n, 65536n),
}, { steps: 1n });
const PLAN = structure({ queries: array(anything, 1, 1000) });

/** The turns of each query of a plan, whatever their kinds. */
export function turnsOf(plan) {
  const kinds = PLAN(plan).queries.map((query) => query instanceof Map && [...query.keys()][0]);
  need(kinds.every((first) => first === 'kind'), 'decode', 'a query without its kind');
  const turns = plan.get('queries').map((query) => Number(int(1n, 100000n)(query.get('turns') ?? 1n)));
  need(turns.reduce((total, some) => total + some) <= 100000, 'decode', 'more than 100,000 turns');
  return turns;
}

function planned(value) {
  const kind = value.get('kind');
  need(!OTHER_KINDS.includes(kind), 'unsupported', kind);
  need(kind === 'counts', 'content', 'no such kind');
  const query = QUERY(value);
  const release = RELEASES[query.release];
  need(release && (release.steps || query.steps === 1n), 'content', 'no such release, or steps that it has not');
  return query;
}

/** The queries of a plan of `counts` with their exact costs, where a unit has at most `most` records. */
export function planOf(plan, most) {
  const queries = turnsOf(plan) && plan.get('queries').map(planned);
  const costs = queries.map(({ partitions, steps, scale }) =>
    new Rational(most * partitions * steps * scale.denominator, scale.numerator));
  const shared = costs.reduce((least, { denominator }) => leastCommonMultiple(least, denominator), 1n);
  const large = [shared, sum(costs).numerator, ...costs.map(({ numerator }) => numerator)];
  need(large.every((each) => each < 2n ** 32n), 'budget', 'a cost beyond 32 bits');
  return { queries, costs, cost: sum(costs) };
}

const BINS = structure({ type: oneOf('feature_bins'), attribute: NAME, edges: array(float64, 0, 100000) });
const RANGE = structure({ bins: BINS, cells: array(int(0n, 100001n), 1, 100002) });
const OTHER = () => null;
const PARTITION = tagged('type', {
  feature_bins: BINS,
  product_bins: structure({ type: anything, first: BINS, second: BINS }),
  cross_bins: structure({ type: anything, factors: array(BINS, 1, 8), within: array(RANGE, 0, 16) }, { within: [] }),
  nearest_centre: OTHER, score_bins: OTHER, projection_bins: OTHER, tree_leaves: OTHER,
});
const HYPOTHESIS = tagged('type', { constant: structure({ type: anything, predicted: oneOf(0n, 1n) }), mlp: anything });
const BODY = structure({
  partitions: array(PARTITION, 1, 100000), hypothesis: maybe(HYPOTHESIS), most_squared_error: maybe(int(1n, 2n ** 24n)),
}, { most_squared_error: null });
const rising = (items) => items.every((item, place) => place === 0 || items[place - 1] < item);

function cellsOf(partition, schema, outcomes) {
  if (partition === null) return NaN;
  const { type, first, second, factors = type === 'feature_bins' ? [partition] : [first, second], within = [] } = partition;
  const label = { name: schema.label, levels: schema.label_bounds ? undefined : schema.classes };
  const more = outcomes && type === 'cross_bins' ? [...schema.outcomes, label] : [];
  const bins = ({ attribute, edges }) => {
    const variable = [...schema.attributes, ...more].find(({ name }) => name === attribute);
    const fits = variable && (variable.levels ? edges.length === 0 : rising(edges));
    need(fits, 'content', `${attribute} is no variable, or has other edges`);
    return (variable.levels ?? edges).length + 2;
  };
  const possible = ({ bins: of, cells }) => rising(cells) && cells.at(-1) < bins(of);
  need(within.every(possible), 'content', 'a condition on cells that there are not');
  return factors.map(bins).reduce((product, each) => product * each) + Math.min(within.length, 1);
}

/** How many numbers answer the body of a planned query; NaN: it has partitions whose cells are not known here. */
export function sizeOf({ release, partitions }, body, schema) {
  const { width, label, hypothesis = false, clip, outcomes } = RELEASES[release];
  const asked = BODY(decode(body));
  need(BigInt(asked.partitions.length) === partitions, 'state', 'another number of partitions than planned');
  need(!label || label(schema), 'content', 'a release of another label');
  need((asked.hypothesis !== null) === hypothesis, 'content', 'a hypothesis too many or too few');
  need(clip || asked.most_squared_error === null, 'content', 'a clip without errors');
  const cells = asked.partitions.map((partition) => cellsOf(partition, schema, outcomes));
  return cells.reduce((total, each) => total + each) * (width || schema.classes.length);
}

/** The numbers of a release. Throws: it has not `size` of them. */
export function numbersOf(release, size) {
  const { counts, ratios } = structure({ counts: bytes(), ratios: bytes() })(decode(release));
  const whole = Number.isNaN(size) ? Math.floor(counts.length / 8) : size;
  need(counts.length === 8 * whole && ratios.length === 0, 'content', `not ${size} numbers`);
  return Array.from({ length: whole }, (_, place) => counts.readBigInt64LE(8 * place));
}
