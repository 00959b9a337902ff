// Loaded before an installer that can only ask (node -r): each of its questions is answered with its own default.
// INSTALLER_PACKAGE is the directory of the installed package, whose copy of the prompting library is the one it uses.
const found = require(require.resolve('inquirer', { paths: [process.env.INSTALLER_PACKAGE] }));
const inquirer = found.default || found;

// Where the default would leave out what the tests are about, or ask again.
const CHOSEN = { ides: ['claude-code'], modules: ['bmm', 'bmb', 'bmgd', 'cis'], goBack: false, enableTts: false };

const called = async (value, answers) => (typeof value === 'function' ? value(answers) : value);
const usable = (choices) => (choices || []).filter((one) => one.type !== 'separator' && !one.disabled);
const valueOf = (choice) => (choice && choice.value !== undefined ? choice.value : choice);

async function byDefault(question, answers) {
  const choices = usable(await called(question.choices, answers));
  let value = await called(question.default, answers);
  if (question.type === 'checkbox') return choices.filter((one) => one.checked).map(valueOf);
  if (question.type === 'list' || question.type === 'rawlist') {
    if (typeof value === 'number') value = valueOf(choices[value]);
    return value === undefined ? valueOf(choices[0]) : value;
  }
  if (value === undefined) value = question.type === 'confirm' ? true : '';
  return value;
}

inquirer.prompt = async (questions) => {
  const answers = {};
  for (const question of [].concat(questions)) {
    if (question.when !== undefined && !(await called(question.when, answers))) continue;
    let value = question.name in CHOSEN ? CHOSEN[question.name] : await byDefault(question, answers);
    if (question.filter) value = await question.filter(value, answers);
    answers[question.name] = value;
  }
  return answers;
};
