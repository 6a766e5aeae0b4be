import java.util.ArrayList;
import java.util.List;

/** A program of another runtime: lists that come and go. */
public class App {
    public static void main(String[] arguments) {
        long sum = 0;
        for (int round = 0; round < 200; round++) {
            List<Integer> list = new ArrayList<>();
            for (int number = 0; number < 10000; number++) {
                list.add(number);
            }
            sum += list.size();
        }
        System.out.println(sum);
    }
}
