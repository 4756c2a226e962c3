/** Questions of the agent as a form: options to choose from, or free text. */

import { useState } from "preact/hooks";
import type { InteractionPart } from "../../src/index.ts";
import type { Responder } from "./interaction.tsx";

interface Question {
  readonly question_id: string;
  readonly question: string;
  readonly options?: readonly { readonly value: string; readonly label: string }[];
  readonly multiple?: boolean;
}

type Answers = Readonly<Record<string, string | string[]>>;

export function questionsOf({ request }: InteractionPart): readonly Question[] {
  return (request as unknown as { questions?: readonly Question[] }).questions ?? [];
}

export function Questions({ part, responder }: { part: InteractionPart; responder: Responder }) {
  const questions = questionsOf(part);
  const [answers, setAnswers] = useState<Answers>({});
  const complete = questions.every((question) => isAnswered(question, answers[question.question_id]));
  const { busy, send } = responder;
  return (
    <form
      class="questions"
      aria-label="Questions"
      onSubmit={(event) => {
        event.preventDefault();
        if (complete)
          send({
            answers: Object.fromEntries(
              questions.map((each) => [each.question_id, answers[each.question_id] ?? []]),
            ),
          });
      }}
    >
      {questions.map((question) => (
        <Field
          key={question.question_id}
          name={`${part.part_id}.${question.question_id}`}
          question={question}
          answer={answers[question.question_id]}
          onAnswer={(answer) => setAnswers((old) => ({ ...old, [question.question_id]: answer }))}
        />
      ))}
      <div class="choices">
        <button type="submit" class="button primary" disabled={!complete || busy}>
          Answer
        </button>
      </div>
    </form>
  );
}

/** Of several options none may be right; a single choice and a free text are wanted. */
const isAnswered = ({ multiple }: Question, answer: string | string[] | undefined): boolean =>
  multiple === true || (typeof answer === "string" && answer.trim() !== "");

interface FieldProps {
  readonly name: string;
  readonly question: Question;
  readonly answer: string | string[] | undefined;
  readonly onAnswer: (answer: string | string[]) => void;
}

function Field({ name, question, answer, onAnswer }: FieldProps) {
  const { options, multiple = false } = question;
  if (!options) {
    return (
      <label class="question">
        <span class="ask">{question.question}</span>
        <textarea
          class="text-field"
          rows={2}
          value={typeof answer === "string" ? answer : ""}
          onInput={(event) => onAnswer(event.currentTarget.value)}
        />
      </label>
    );
  }
  const chosen = [answer ?? []].flat();
  return (
    <fieldset class="question">
      <legend class="ask">{question.question}</legend>
      {options.map(({ value, label }) => (
        <label class="option" key={value}>
          <input
            type={multiple ? "checkbox" : "radio"}
            name={name}
            value={value}
            checked={chosen.includes(value)}
            onChange={(event) => {
              if (!multiple) return onAnswer(value);
              const others = chosen.filter((other) => other !== value);
              onAnswer(event.currentTarget.checked ? [...others, value] : others);
            }}
          />
          {label}
        </label>
      ))}
    </fieldset>
  );
}
