/** Keys that are pressed in a text field. */

/** WebKit ends a composition before the key that picked the word, which it then tells by this code only. */
const COMPOSING = 229;

/** Whether an input method has used the key, such as Enter to pick a word. */
export const isComposing = (event: KeyboardEvent): boolean =>
  event.isComposing || event.keyCode === COMPOSING;
