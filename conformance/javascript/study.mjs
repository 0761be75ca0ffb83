/** One study with one curator as its envelopes tell it. Each is checked before it counts. */
import { faultOf, need, Rational, sum, ZERO } from './encoding.mjs';
import { LABEL, meaning, NOTHING, opened, openedReceipt, sha256, unsealed } from './messages.mjs';
import { numbersOf, planOf, sizeOf } from './plans.mjs';

const ANSWERS = { card_request: 'card', study_proposal: 'study_accepted', query: 'release', study_close: 'study_closed' };
/** By type: the state of the study before to its state after. */
const STEPS = {
  study_proposal: { new: 'proposed' }, query: { open: 'asked' }, study_close: { open: 'closing', asked: 'closing' },
  study_accepted: { proposed: 'open' }, release: { asked: 'open', closing: 'closing' }, study_closed: { closing: 'closed' },
  refusal: { proposed: 'refused', asked: 'open', closing: 'open' },
};

/** Throws unless a receipt is of this request, and of this released body or none. */
export function checkReceipt(receipt, { content: { sender, study, sequence }, request }, body) {
  need(receipt.learner.equals(sender) && receipt.study.equals(study), 'state', 'a receipt of another study');
  need(receipt.sequence === sequence && receipt.request.equals(request), 'state', 'a receipt of another request');
  need(receipt.release.equals(body ? sha256(body) : NOTHING), 'state', 'a receipt of another release');
}

/** A study as far as it went. `stopped` is why nothing more is to be asked, or null. */
export class Study {
  constructor(learner, curator, label, newestReceipt = Buffer.alloc(0)) {
    const spentByLearner = newestReceipt.length ? openedReceipt(newestReceipt, curator, label).spent_by_learner : ZERO;
    Object.assign(this, { learner, curator, label, newestReceipt, spentByLearner, spent: ZERO, claimed: ZERO, stopped: null });
    Object.assign(this, { state: 'new', next: 1n, last: NOTHING, head: sha256('expril/2 transcript') });
    Object.assign(this, { requests: [], answers: [], refusals: [], seen: new Set() });
  }

  /** The request whose reply is due, if any. */
  get pending() { return this.requests.findLast(({ waits }) => waits); }

  /** Its state, the cost of the accepted plan, what was spent, and the most that can be charged for what was sent. */
  get standing() {
    const { state, claimed, spent, plan, requests } = this;
    const sent = sum(requests.filter(({ ruledOut }) => !ruledOut).map(({ cost }) => cost));
    return { state, claimed, spent, at_most: { proposed: plan?.cost, closed: spent }[state] ?? sent };
  }

  /** Adds an envelope that was sent or came; a repeated one changes nothing. Throws if it must not be there. */
  add(data) {
    const digest = sha256(data);
    if (!this.seen.has(digest.toString('hex'))) {
      if (unsealed(data).type in ANSWERS) this.#send(opened(data, this.learner, LABEL));
      else this.#take(opened(data, this.curator, this.label));
    }
    this.seen.add(digest.toString('hex'));
    this.head = sha256(this.head, digest);
  }

  #after(type) {
    need(this.state in STEPS[type], 'state', `a ${type} in a study that is ${this.state}`);
    return STEPS[type][this.state];
  }

  #send(envelope) {
    const { type, content } = envelope;
    const { study = content.study, learner, curator, last, next, card } = this;
    const state = type === 'card_request' ? this.state : this.#after(type);
    need(content.sender.equals(learner) && content.recipient.equals(curator), 'state', 'a request of others');
    need(content.study.equals(study) && content.answers.equals(last), 'state', 'a request of another study or reply');
    need(content.sequence === (this.state === 'new' ? 0n : next), 'state', 'a request of another sequence');
    need(type !== 'study_proposal' || card, 'state', 'a proposal without a card');
    if (type === 'study_proposal') Object.assign(this, { plan: planOf(content.plan, card.most_records_per_unit), study });
    const question = type === 'query' ? this.#question(content) : { cost: ZERO };
    this.requests.push({ ...envelope, ...question, waits: true });
    Object.assign(this, { state, next: type === 'query' ? next + 1n : next });
  }

  #question({ kind, body, sequence }) {
    const query = this.plan.queries[Number(sequence) - 1];
    need(query && kind === query.kind, 'state', 'a query that was not planned');
    return { size: sizeOf(query, body, this.card.schema), cost: this.plan.costs[Number(sequence) - 1] };
  }

  #take({ type, content, digest }) {
    const request = this.requests.find((each) => each.digest.equals(content.answers));
    need(request?.waits && content.sender.equals(this.curator), 'state', 'a reply to no request, or a second one');
    need([ANSWERS[request.type], 'refusal'].includes(type), 'state', `a ${type} in reply to a ${request.type}`);
    const { study, sequence, sender } = request.content;
    const same = content.study.equals(study) && content.sequence === sequence && content.recipient.equals(sender);
    need(same || (type === 'refusal' && content.recipient.equals(NOTHING)), 'state', 'a reply of another study, sequence or learner');
    if (type === 'refusal') return this.#refused(content, request);
    if (type === 'card') this.card = content;
    else this.#settle(type, content, request, digest);
    return Object.assign(request, { waits: false, answered: true });
  }

  #refused(refusal, request) {
    const { final, rules_out: ruledOut } = meaning(refusal);
    if (final && request.type !== 'card_request') this.state = this.#after('refusal');
    if (final && request.type === 'query') this.stopped ??= { why: refusal.code };
    if (ruledOut && request.type === 'query') this.next = request.content.sequence;
    Object.assign(request, { waits: !final, ruledOut });
    this.refusals.push(refusal.code);
  }

  #settle(type, reply, request, digest) {
    const state = this.#after(type);
    const receipt = openedReceipt(reply.receipt, this.curator, this.label);
    const { spent_by_study: spent, spent_by_learner: spentByLearner } = receipt;
    checkReceipt(receipt, request, reply.body);
    this.#checkAmounts(receipt, request.cost, type === 'study_closed');
    need(type !== 'study_closed' || reply.refunded.equals(this.claimed.minus(spent)), 'budget', 'another refund than what is left');
    if (type === 'study_accepted') this.claimed = reply.cost;
    const fault = faultOf(() => {
      need(this.claimed.equals(this.plan.cost), 'budget', `the plan costs ${this.plan.cost}`);
      if (type === 'release') this.answers.push(numbersOf(reply.body, request.size));
    });
    if (type === 'release' && fault) this.answers.push(null);
    this.stopped ??= fault;
    Object.assign(this, { state, spent, spentByLearner, newestReceipt: reply.receipt, last: digest });
  }

  /** At the closing, a query without its reply may have been charged. */
  #checkAmounts({ charged, spent_by_study: spent, spent_by_learner: byLearner }, cost, closing) {
    const open = closing ? this.requests.filter(({ answered, ruledOut }) => !answered && !ruledOut) : [];
    const totals = [cost, ...open.map((request) => request.cost)].map((more) => this.spent.plus(more));
    const exact = charged.equals(cost) && totals.some((total) => total.equals(spent));
    need(exact, 'budget', `${charged} charged, ${spent} in all, where ${cost} is due`);
    const least = this.spentByLearner.plus(cost).minus(new Rational(1n, 2n ** 64n)); // totals may be rounded
    need(spent.atMost(byLearner) && least.atMost(byLearner), 'budget', 'a total of the learner that is too low');
  }
}
