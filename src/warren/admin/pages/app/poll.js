// Asking again and again, at the operator's pace, and only while somebody looks.
//
// At most one round is under way; a round asked for early (`now`) ends the one before it. What a round learns after it
// was ended is thrown away by its signal, so an old answer never comes after a newer one.

import { setting } from "./settings.js";

const DEFAULT_PACE_S = 5;

/** Seconds from one round to the next; 0 if rounds are asked for by hand. */
export const paceSeconds = () => setting("pace", DEFAULT_PACE_S);

export class Poller {
  #work;
  #failed;
  #timer = 0;
  #round = null;
  #stopped = false;
  #watching = () => this.#visibilityChanged();

  /**
   * `work(signal)` is one round; `failed(error)` hears of a round that went wrong, and `failed(null)` of one that did
   * not.
   */
  constructor(work, failed) {
    this.#work = work;
    this.#failed = failed;
    document.addEventListener("visibilitychange", this.#watching);
  }

  /** A round at once; the pace counts from its end. */
  async now() {
    if (this.#stopped) return;
    clearTimeout(this.#timer);
    this.#round?.abort();
    const round = new AbortController();
    this.#round = round;
    const trouble = await this.#attempt(round.signal);
    if (round.signal.aborted) return;
    this.#round = null;
    this.#failed(trouble);
    this.#schedule();
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#round?.abort();
    document.removeEventListener("visibilitychange", this.#watching);
  }

  async #attempt(signal) {
    try {
      await this.#work(signal);
      return null;
    } catch (trouble) {
      return trouble;
    }
  }

  #schedule() {
    const pace = paceSeconds();
    if (this.#stopped || document.hidden || pace === 0) return;
    this.#timer = setTimeout(() => this.now(), pace * 1000);
  }

  #visibilityChanged() {
    clearTimeout(this.#timer);
    if (!document.hidden && this.#round === null) this.now();
  }
}
