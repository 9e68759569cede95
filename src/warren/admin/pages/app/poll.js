// Polling at the operator's interval, and only while the page is visible.
//
// At most one round is in progress; a round that is requested early (`now`) aborts the one before it. The signal of an
// aborted round drops its result, so an old response never replaces a newer one.

import { setting } from "./settings.js";

const DEFAULT_PACE_S = 5;

/** Seconds between rounds; 0 for manual updates. */
export const paceSeconds = () => setting("pace", DEFAULT_PACE_S);

export class Poller {
  #work;
  #failed;
  #timer = 0;
  #round = null;
  #stopped = false;
  #watching = () => this.#visibilityChanged();

  /**
   * `work(signal)` is one round; `failed(error)` is called after a failed round, `failed(null)` after a successful one.
   */
  constructor(work, failed) {
    this.#work = work;
    this.#failed = failed;
    document.addEventListener("visibilitychange", this.#watching);
  }

  /** Start a round at once; the interval counts from its end. */
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
